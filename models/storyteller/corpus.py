# SPDX-License-Identifier: MIT
"""Short stories and talks about them, from a grammar of our own; every text is (question, answer, question, answer, …).
    python3 corpus.py [N]     shows N texts, and how many shapes of sentences there are"""
import random
import re
import sys

from grammar import expand, fill
from stories import ADVERBS, FEELINGS, FOODS, HER_NAMES, HIS_NAMES, KINDS, PLACES, PLOTS, RULES, TALK, THINGS, WEATHER


def people(rng):
    """The hero and a friend, as slots. Friends have names that no hero has: so small a model tells two apart by the
    kind of name much sooner than by who did what."""
    slots = {}
    for i, (who, kind) in enumerate(zip(("hero", "pal"), rng.sample(KINDS, 2))):
        she = kind == "girl" or (kind != "boy" and rng.random() < 0.5)
        name = rng.choice((HIS_NAMES, HER_NAMES)[she][i::2])
        he = ("she", "her", "her") if she else ("he", "him", "his")
        adjective = rng.choice(("small", "young", "little", "clever", "shy", "brave", "quiet", "cheerful", "hungry",
                                "old", "kind", "curious"))
        slots.update({who: name, who + "_kind": kind, who + "_adjective": adjective, who + "_he": he[0],
                      who + "_him": he[1], who + "_his": he[2]})
    return slots


def world(rng):
    slots = people(rng)
    at, place = rng.choice(PLACES)
    at_far, far = rng.choice([p for p in PLACES if p[1] != place])
    thing, looks = rng.choice(THINGS)
    weather = rng.choice(list(WEATHER))
    slots.update(at=at, place=place, at_far=at_far, far=far, thing=thing, looks=rng.choice(looks),
                 food=rng.choice(FOODS), weather=weather, adverb=rng.choice(ADVERBS), feeling=rng.choice(FEELINGS),
                 number=rng.choice(("two", "three", "four", "five", "seven", "ten")))
    return slots


def story(rng):
    """(slots, plot, shape of the story): two or three paragraphs."""
    slots = world(rng)
    name = rng.choice(list(PLOTS))
    plot = PLOTS[name]
    parts = [expand(beat, RULES, rng) for beat in plot["beats"]]
    opening = expand("@opening", RULES, rng)
    sky = expand(WEATHER[slots["weather"]], RULES, rng) if rng.random() < 0.7 else ""
    first = " ".join(part for part in (opening, sky, parts[0]) if part)
    rest = parts[1:] + [expand("@ending", RULES, rng)]
    cut = rng.randrange(1, len(rest))
    return slots, plot, "\n".join((first, " ".join(rest[:cut]), " ".join(rest[cut:]))), bool(sky)


def wish(rng, plot, has_sky):
    """What somebody may say who then hears this story."""
    about = ["a $hero_kind", "a $hero_kind", "a $hero_kind called $hero", "a $hero_kind and a $pal_kind",
             "$hero the $hero_kind", "a $hero_adjective $hero_kind", "a $hero_kind $at", plot["about"], plot["about"]]
    if plot.get("thing"):
        about += ["a $thing", "a $hero_kind and a $thing"]
    if has_sky:
        about += ["a $weather day", "a $hero_kind on a $weather day"]
    shape = expand("@wish", {**RULES, "about": rng.choice(about)}, rng)
    return shape if rng.random() < 0.9 else expand("@any_wish", RULES, rng)


def talk(rng):
    """One conversation: mostly a wish and a story, often with a question behind it; now and then small talk."""
    if rng.random() < 0.06:
        question, answer = rng.choice(TALK)
        slots = world(rng)
        return [fill(expand(question, RULES, rng), slots), fill(expand(answer, RULES, rng), slots)]
    slots, plot, shape, has_sky = story(rng)
    turns = [wish(rng, plot, has_sky), shape]
    later = [*plot["questions"], *RULES_AFTER]
    for question, answer in rng.sample(later, rng.choice((0, 0, 1, 2))):
        turns += [expand(question, RULES, rng), expand(answer, RULES, rng)]
    return [fill(turn, slots) for turn in turns]


RULES_AFTER = [
    ("(Who was the story about|Who was in it|Who was that about)?",
     "it was about a $hero_kind called $hero[ and a $pal_kind called $pal]."),
    ("(What was|What is) the name of the $hero_kind?", "the $hero_kind was called $hero."),
    ("(Who|What) was $pal?", "$pal was a $pal_kind[, and a friend of $hero]."),
    ("Where (was that|did it happen|did $hero live)?", "it was $at."),
    ("(Thank you|Thanks)[, that was (nice|lovely|a good story)](.|!)",
     "(you are welcome|I am glad that you liked it). @offer"),
]


def shapes(rng, count):
    """Distinct sentences with their slots still empty."""
    found = set()
    for _ in range(count):
        found.update(re.split(r'(?<=[.!?]) |(?<=[.!?]") |\n', story(rng)[2]))
    return found


def main():
    rng = random.Random(1)
    for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3):
        print("\n".join(f"{'>' if i % 2 == 0 else ' '} {turn}" for i, turn in enumerate(talk(rng))), end="\n\n")
    print(f"{len(shapes(rng, 20000))} shapes of sentences in 20000 stories")


if __name__ == "__main__":
    main()
