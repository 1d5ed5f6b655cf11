// SPDX-License-Identifier: MIT
//! Talks with a language model from Rust, by its own FFI: no crate, no binding generator.
//!
//!     rustc -O demos/rust/chat.rs -L build -C link-arg=-Wl,-rpath,build -o build/demos/rust_chat
//!     build/demos/rust_chat models/storyteller "Tell me a story about a fox."
use std::ffi::{CStr, CString};
use std::io::Write;
use std::os::raw::{c_char, c_int, c_void};
use std::ptr::{null, null_mut};

// The part of oort/c_network.h and oort/c_language.h that this program uses. Handles are opaque: a pointer to nothing that Rust knows.
#[repr(C)]
struct Handle {
    _private: [u8; 0],
}
type OnPiece = extern "C" fn(*const Handle, *mut c_void) -> c_int;

#[link(name = "oort-c")]
extern "C" {
    fn oort_version() -> *const c_char;
    fn oort_error_message(error: *const Handle) -> *const c_char;
    fn oort_error_free(error: *mut Handle);
    fn oort_options_new() -> *mut Handle;
    fn oort_options_set(
        options: *mut Handle, name: *const c_char, value: *const c_char, error: *mut *mut Handle,
    ) -> i32;
    fn oort_options_free(options: *mut Handle);
    fn oort_model_load(
        path: *const c_char, options: *const Handle, model: *mut *mut Handle, error: *mut *mut Handle,
    ) -> i32;
    fn oort_model_free(model: *mut Handle);
    fn oort_engine_new(
        model: *const Handle, options: *const Handle, engine: *mut *mut Handle, error: *mut *mut Handle,
    ) -> i32;
    fn oort_engine_free(engine: *mut Handle);
    fn oort_chat_new() -> *mut Handle;
    fn oort_chat_add(
        chat: *mut Handle, role: *const c_char, text: *const c_char, length: usize, error: *mut *mut Handle,
    ) -> i32;
    fn oort_chat_free(chat: *mut Handle);
    fn oort_engine_chat(
        engine: *mut Handle, chat: *const Handle, options: *const Handle, on_piece: OnPiece, user: *mut c_void,
        result: *mut *mut Handle, error: *mut *mut Handle,
    ) -> i32;
    fn oort_piece_text(piece: *const Handle) -> *const c_char;
    fn oort_result_text(result: *const Handle, answer: usize, length: *mut usize) -> *const c_char;
    fn oort_result_free(result: *mut Handle);
}

/// A handle, and the function that frees it.
struct Owned(*mut Handle, unsafe extern "C" fn(*mut Handle));
impl Drop for Owned {
    fn drop(&mut self) {
        unsafe { (self.1)(self.0) }
    }
}

/// Calls a function that may fail: what went wrong becomes a Rust error.
fn check(call: impl FnOnce(*mut *mut Handle) -> i32) -> Result<(), String> {
    let mut error = null_mut();
    if call(&mut error) == 0 {
        return Ok(());
    }
    let error = Owned(error, oort_error_free);
    Err(unsafe { CStr::from_ptr(oort_error_message(error.0)) }.to_string_lossy().into_owned())
}

/// Called on the engine's thread; `user` counts the pieces.
extern "C" fn print_piece(piece: *const Handle, user: *mut c_void) -> c_int {
    let text = unsafe { CStr::from_ptr(oort_piece_text(piece)) };
    print!("{}", text.to_string_lossy());
    let _ = std::io::stdout().flush();
    unsafe { *(user as *mut usize) += 1 };
    0
}

fn answer(path: &str, question: &str) -> Result<(), String> {
    let (path, question) = (CString::new(path).unwrap(), CString::new(question).unwrap());
    let options = Owned(unsafe { oort_options_new() }, oort_options_free);
    let (name, value) = (CString::new("max_tokens").unwrap(), CString::new("200").unwrap());
    check(|error| unsafe { oort_options_set(options.0, name.as_ptr(), value.as_ptr(), error) })?;
    let mut model = Owned(null_mut(), oort_model_free);
    check(|error| unsafe { oort_model_load(path.as_ptr(), null(), &mut model.0, error) })?;
    let mut engine = Owned(null_mut(), oort_engine_free);
    check(|error| unsafe { oort_engine_new(model.0, null(), &mut engine.0, error) })?;
    let chat = Owned(unsafe { oort_chat_new() }, oort_chat_free);
    let user = CString::new("user").unwrap();
    let length = question.as_bytes().len();
    check(|error| unsafe { oort_chat_add(chat.0, user.as_ptr(), question.as_ptr(), length, error) })?;
    let mut result = Owned(null_mut(), oort_result_free);
    let mut pieces = 0usize;
    let counter = &mut pieces as *mut usize as *mut c_void;
    check(|error| unsafe {
        oort_engine_chat(engine.0, chat.0, options.0, print_piece, counter, &mut result.0, error)
    })?;
    let mut bytes = 0usize;
    unsafe { oort_result_text(result.0, 0, &mut bytes) };
    println!("\n({pieces} pieces, {bytes} bytes)");
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.len() != 3 {
        eprintln!("chat MODEL QUESTION");
        std::process::exit(2);
    }
    eprintln!("oort {}", unsafe { CStr::from_ptr(oort_version()) }.to_string_lossy());
    if let Err(message) = answer(&arguments[1], &arguments[2]) {
        eprintln!("chat: {message}");
        std::process::exit(1);
    }
}
