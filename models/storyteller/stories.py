# SPDX-License-Identifier: MIT
"""The words, rules and plots that corpus.py makes stories of. All of it was written for this model."""

KINDS = ("fox hedgehog owl mouse bear rabbit otter frog crow badger squirrel duck goat cat dog turtle heron mole lamb "
         "robin beaver hare deer donkey pony girl boy baker miller gardener shepherd sailor").split()
HIS_NAMES = "Pip Tam Odo Bram Finn Hugo Otto Rufus Jory Milo Ben Toby Kit Theo Sam Ned Basil Emil Bo Arlo".split()
HER_NAMES = ("Nora Lila Wren Mia Tilda Ada Ivy Nell Una Hazel Greta Fern Ines Maud Rosa Elka Poppy Juno Clara "
             "Vera").split()
PLACES = [("in the forest", "the forest"), ("by the river", "the river"), ("on the hill", "the hill"),
          ("by the sea", "the sea"), ("in the village", "the village"), ("at the old mill", "the old mill"),
          ("in the meadow", "the meadow"), ("in the garden", "the garden"), ("by the lake", "the lake"),
          ("in the valley", "the valley"), ("at the harbour", "the harbour"), ("on the island", "the island"),
          ("at the farm", "the farm"), ("under the bridge", "the bridge"), ("in the orchard", "the orchard"),
          ("at the market", "the market")]
THINGS = [("lamp", ("brass", "small", "green")), ("drum", ("red", "round", "loud")),
          ("kite", ("yellow", "paper", "long")), ("boat", ("wooden", "little", "blue")),
          ("bell", ("silver", "small", "brass")), ("key", ("rusty", "golden", "tiny")),
          ("map", ("torn", "folded", "old")), ("hat", ("straw", "warm", "tall")),
          ("basket", ("round", "wide", "brown")), ("blanket", ("soft", "striped", "woollen")),
          ("book", ("thick", "blue", "dusty")), ("cup", ("white", "cracked", "small")),
          ("coat", ("red", "warm", "patched")), ("shell", ("pink", "shiny", "curled")),
          ("stone", ("smooth", "grey", "flat")), ("feather", ("white", "long", "blue")),
          ("whistle", ("tin", "wooden", "shrill")), ("box", ("locked", "little", "tin")),
          ("ladder", ("long", "wooden", "wobbly")), ("wheel", ("wooden", "broken", "big")),
          ("ball", ("red", "striped", "round")), ("spoon", ("silver", "wooden", "long")),
          ("button", ("shiny", "golden", "tiny")), ("mirror", ("round", "cracked", "tall"))]
FOODS = ("bread", "soup", "honey cake", "apple pie", "warm milk", "porridge", "plum jam", "cheese", "pancakes",
         "roasted nuts")
ADVERBS = ("slowly", "quickly", "carefully", "quietly", "gladly", "bravely", "gently", "at once")
FEELINGS = ("happy", "proud", "glad", "calm", "thankful", "warm inside")

WEATHER = {
    "rainy": "(it was raining[ softly| hard]|rain fell on (the roofs|the leaves|the grass)|the rain (drummed|tapped) "
             "on the leaves|it had rained [all night|since the morning]), and (the path was muddy|everything smelled "
             "of wet earth|there were puddles everywhere).",
    "sunny": "(the sun (shone|was shining)[ brightly]|the sky was blue|there was not a cloud in the sky), and (the air "
             "was warm|bees hummed in the clover|the grass was full of flowers|everything was bright).",
    "windy": "(the wind (blew|was blowing)[ hard]|a strong wind came up|the wind sang in the trees), and (leaves flew "
             "about|the clouds raced across the sky|every door rattled).",
    "snowy": "(snow (lay|had fallen)[ everywhere]|it was snowing|big flakes fell from the sky), and (the world was "
             "white|every step crunched|it was very quiet).",
    "foggy": "(there was [thick ]fog|fog lay on (the fields|the water)|a grey mist hung in the air), and (nobody could "
             "see far|everything looked strange|the trees were only shadows).",
    "stormy": "(a storm was coming|thunder rolled far away|dark clouds came over the hills), and (the birds were "
              "silent|the first drops fell|it grew dark early).",
}

RULES = {
    "opening": "(@time_open, |@time_open )(there (lived|was) a $hero_adjective $hero_kind $at. (the name of the "
               "$hero_kind was $hero|$hero_his name was $hero|everybody called $hero_him $hero)|a $hero_adjective "
               "$hero_kind called $hero (lived|had a [little |small |tidy ]house) $at|a $hero_kind called $hero (set "
               "out on a journey|went for a walk|was sitting) $at).",
    "time_open": "(once upon a time|one (day|morning|evening|spring day|autumn day)|long ago|not long ago|one fine "
                 "day|a few years ago)",
    "then": "(then|after a while|soon|at last|in the afternoon|a little later|the next (day|morning)|before long)",
    "suddenly": "(suddenly|just then|at that moment|all at once)",
    "say": "(said|said|answered|replied)",
    "ask": "(asked|called)",
    "hero": "($hero|$hero|the [$hero_adjective ]$hero_kind|$hero the $hero_kind)",
    "pal": "($pal|$pal|the [$pal_adjective ]$pal_kind|$pal the $pal_kind)",
    "hero_says": "(@say @hero|$hero_he @say|@say $hero[ with a smile|, (laughing|nodding)| $adverb])",
    "pal_says": "(@say @pal|$pal_he @say|@say $pal[ with a smile|, (laughing|nodding)| kindly])",
    "thing": "(the $thing|the $looks $thing)",
    "meet": "(@suddenly, |@then )(@hero met $pal, a [$pal_adjective ]$pal_kind|a [$pal_adjective ]$pal_kind called "
            "$pal came (along|by|down the path|out of the bushes)|@hero saw a $pal_kind[ (sitting|standing) (under a "
            "tree|on a stone|by the fence)]. it was $pal).",
    "greet": '("(Good (morning|day|evening)|Hello[ there])[, $hero]," said @pal. |"(What is the matter|Why do you look '
             'so (sad|worried)|Can I help you|What are you doing)?" @ask @pal. )',
    "thanks": '("(Thank you|Thank you so much|How kind of you)[, $pal]," @hero_says. |@hero (thanked $pal_him|was very '
              'thankful). )',
    "joy": "(@hero (was [very ](happy|glad|proud)|was so (happy|glad) that $hero_he (danced|sang|jumped)|smiled[ from "
           "ear to ear]|laughed[ out loud]|clapped $hero_his hands[ for joy]|felt $feeling).)",
    "sad": "(@hero (was [very |so ](sad|worried)|sat down and (cried|sighed)|did not know what to do|felt "
           "(lonely|small))[ and (said nothing|looked at the ground)].)",
    "meal": "(@then they (shared|ate) [some |a lot of ]$food[ together| under a tree| by the fire| until it was "
            "dark].)",
    "ending": "((from that day on|since then|ever after), (they were [the best of |good ]friends|$hero and $pal "
              "(met|played|walked) [there |together ](every (day|week|morning)|whenever (it rained|the sun "
              "shone))|nobody (laughed at|forgot) $hero[ again]|$hero was never (afraid|lonely|sad) (again|for long)).|"
              "(in the evening|when the (stars|moon) came out|that night) (@hero (fell asleep|slept [well|deeply]|went "
              "to bed)[ with a smile| and dreamed of ($place|the $thing|$pal)]|they walked home[ side by side| hand in "
              "hand]|$hero lay awake for a while and felt $feeling).|"
              "and (that was the best day of the (year|summer|week)|so it ended well|everyone $at (still tells|heard) "
              "(this|the) story[ of $hero and $pal]).|"
              '"(What a day|That was (fun|a good day)|Let us do that again)!" said @pal, and @hero '
              '(agreed|nodded|laughed).)',
    "wish": "((Please tell|Tell) me a [short |little |nice |new ]story about @about.|(Can|Could) you tell me a story "
            "about @about?|A story about @about, please.|Write a [short |little ]story about @about.|I would like [to "
            "hear ]a story about @about.|Do you know a story about @about?|Tell me about @about.)",
    "any_wish": "((Tell me a [good |short |nice |new ]story|A story, please|I would like a story|Another story, "
                "please)(.|!)|Can you tell me a story?)",
    "offer": "((Shall I tell you|Would you like [to hear ]) (another story|a story about a $hero_kind|one about a "
             "$hero_kind and a $thing)?)",
}

TALK = [
    ("(Hello|Hi|Good morning|Good evening|Hey)[ there](.|!|)",
     "(hello|good day)! (I tell stories|I know many stories). @offer"),
    ("(Who are you|What are you|What is your name)?", "I am a [very ]small storyteller[, and I live in this computer]. "
                                                      "@offer"),
    ("(What can you do|What do you know|Can you help me)?", "I can tell [short ]stories about animals and people. "
                                                            "@offer"),
    ("(How are you|Are you well)[ today]?", "I am (well|fine), thank you. @offer"),
    ("(Thank you|Thanks|Bye|Goodbye|Good night)[!|.]", "(you are welcome|goodbye, and sleep well|until next time)!"),
    ("(What is (the capital of France|two and two|the time)|Write a (poem|letter|program)|(Who is the king|How far is "
     "the moon|Explain the weather|What is a computer))[?|.]",
     "(I do not know that|that is too hard for me): I (only know|only tell) stories. @offer"),
]

PLOTS = {
    "lost": {
        "thing": True,
        "about": "a (lost $thing|$hero_kind who (loses|has lost|looks for) a $thing)",
        "beats": [
            "(@hero had a $looks $thing[ and (loved it|took it everywhere)]|@hero owned only one thing: a $looks "
            "$thing). (one (morning|day|evening), |but @then )(it was gone|the $thing was not there|$hero_he could not "
            "find it).",
            "@hero looked (under the (bed|table)|behind the (door|house)|in (every|each) corner)[ and (under the "
            "leaves|between the stones)], but (there was no $thing|it was nowhere|$hero_he found nothing). [@sad]",
            '@meet [@greet]"I have lost my $thing," said @hero. ["We will (find it|look together)," @pal_says.]',
            "(together they|the two of them) (walked|went|ran) to $far[ and (looked everywhere|asked everyone)]. "
            "@suddenly, @pal (saw|heard|found) something (shiny|strange|small) (in the grass|under a root|behind a "
            "stone|in an old nest). (it was the $thing!|there it was!) [@thanks]@joy [@meal]"],
        "questions": [("What (was lost|did $hero lose)?", "$hero lost a [$looks ]$thing."),
                      ("Who found (the $thing|it)?", "$pal found it[ $at_far| near $far].")],
    },
    "share": {
        "about": "(sharing|$food|a hungry $pal_kind)",
        "beats": [
            "@hero had (made|baked|bought|brought) [some |a lot of ]$food[ and (could hardly wait|was very hungry)].",
            '@meet "(I am so hungry|I have eaten nothing since yesterday|That smells good)," said @pal.',
            "@hero (thought about it|looked at the $food|waited a moment). there was (not much|only a little|just "
            "enough for one). "
            '[but ]@then @hero (cut|divided) it in two and gave (half of it|the bigger part) to $pal. "(Here|Take '
            'this|Eat), (it tastes better together|there is enough for two)," @hero_says.',
            "@thanks_pal @then @pal (came back|returned) with (a $looks $thing|a basket of berries|a song)[ and gave "
            "it to $hero]. @joy"],
        "questions": [("What did they eat?", "they ate $food."), ("Who was hungry?", "$pal the $pal_kind was hungry.")],
    },
    "stuck": {
        "about": "(helping a friend|a $pal_kind who is stuck|a $hero_kind who helps a $pal_kind)",
        "beats": [
            "(@suddenly|on the way to $far), @hero heard a (small|thin|sad) voice. \"Help (me|me, please)!\" it "
            "(cried|called).",
            "(it was $pal, a [$pal_adjective ]$pal_kind|a $pal_kind called $pal sat there). $pal_he was stuck (in a "
            "hole|between two stones|under a branch|in the mud)[ and could not move].",
            '"(Do not (worry|be afraid)|I will help you|Hold on)," @hero_says. @hero (pulled|pushed|dug) [$adverb '
            '][with all $hero_his '
            "strength]. (nothing happened|it was not enough). (@then|so) $hero_he took a (rope|branch|long "
            "stick|$thing) and tried (again|once more).",
            '(pop!|plop!|at last) $pal (was free|came loose)! "(You saved me|I will never forget this|You are '
            '(strong|kind|brave))," '
            "@pal_says. @joy [@meal]"],
        "questions": [("Who was stuck?", "$pal the $pal_kind was stuck."),
                      ("Who helped $pal?", "$hero the $hero_kind helped $pal_him.")],
    },
    "race": {
        "about": "(a race|a $hero_kind and a $pal_kind who run a race)",
        "beats": [
            '@meet "I am (faster than you|the fastest $pal_kind in the world)," said @pal[ proudly]. "Let us '
            '(race|run) to $far!"',
            "(everybody came to watch|@then they stood side by side). one, two, three, and (off they went|they ran). "
            "@pal was (far ahead|very fast)[, and @hero (was soon out of breath|fell behind)].",
            "but @suddenly @pal (fell over a root|stopped to rest|slipped in the mud|lost the way). @hero could have "
            "(run on|won). but $hero_he (stopped|turned back|waited) and (helped $pal up|held out a hand).",
            '"(I do not understand|You could have won)," said @pal. "(A friend is better than a race|Winning alone is '
            'no fun)," @hero_says. '
            "(they (walked|ran) to $far together|so they crossed the line together), and (nobody lost|both of them "
            "won). [@meal]"],
        "questions": [("Who won[ the race]?", "nobody won alone: $hero and $pal came to $far together."),
                      ("Where did they (run|race) to?", "they ran to $far.")],
    },
    "fear": {
        "about": "(being brave|a $hero_kind who is afraid|the dark)",
        "beats": [
            "@hero was afraid of (the dark|thunder|deep water|high places)[, and (everybody knew it|nobody knew it)].",
            "one (night|evening), @hero heard a (strange|loud|scratching) noise (outside|behind the door|near $place). "
            "$hero_his heart "
            '(beat fast|was pounding). "Who is there?" (asked|called) @hero[ in a small voice].',
            "nobody answered. @hero took a (lamp|candle|deep breath) and went out [$adverb ]. (step by step|slowly), "
            "$hero_he (came closer|went on). (it was only|there sat) $pal, a [$pal_adjective ]$pal_kind.",
            '"I am (lost|cold|alone)," said @pal. "(Then come in|Come in and get warm|You can stay here)," @hero_says. '
            '(inside they had '
            "$food|@hero made a fire). @then @hero noticed that $hero_he was not afraid any more. [@joy]"],
        "questions": [("(What|Who) made the noise?", "it was $pal, a $pal_kind."),
                      ("Was $hero (afraid|brave)?", "at first $hero was afraid, but "
                      "then $hero_he was brave.")],
    },
    "build": {
        "about": "(building a (house|bridge|raft)|a $hero_kind who builds something)",
        "beats": [
            "@hero wanted to build a (bridge|house|raft|tower)[ $at]. (every day $hero_he|$hero_he) carried "
            "(stones|planks|branches) [from $far ][until it was dark].",
            '@meet "That will never (work|hold|stand)," said @pal. but @hero (went on|did not listen|only smiled).',
            "@then (the wind came|it all fell down|one side broke). @sad "
            '"(I was wrong to laugh|Two can do more than one|Let me help)," said @pal. "(I know how|I can carry the '
            'big ones)."',
            "for $number days they (worked|hammered|built) [side by side]. (when it was finished|at last), (it was "
            "strong|it stood firm|it was better than before). @joy [@meal]"],
        "questions": [("Who helped $hero?", "$pal the $pal_kind helped."),
                      ("How long did (it take|they work)?", "they worked for $number days.")],
    },
    "gift": {
        "thing": True,
        "about": "(a gift|a birthday|a birthday and a $thing)",
        "beats": [
            "it was the birthday of $pal, a [$pal_adjective ]$pal_kind. @hero wanted to (give|bring) $pal_him (a "
            "gift|something nice), but $hero_he had (no money|nothing to give).",
            "(so|@then) @hero went to $far and (looked|searched|thought) for a long time. (under a tree|in the "
            "sand|behind a fence|on the path) $hero_he found (an old|a dirty|a broken) $thing. @hero "
            "(cleaned|washed|mended|painted) it [$adverb ]until it was a $looks $thing.",
            '"(Happy birthday|This is for you)[, $pal]!" said @hero. @pal (opened|unwrapped) it and (was silent for a '
            'moment|could not '
            "believe it).",
            '"(It is the (best|nicest) gift of all|I have always wanted a $thing|You made it yourself)!" said @pal. '
            '(they (danced|sang|'
            "laughed) until the (stars|moon) came out.|@meal)"],
        "questions": [("What (was the gift|did $pal get)?", "it was a $looks $thing."),
                      ("Whose birthday was it?", "it was the birthday of $pal.")],
    },
    "seed": {
        "about": "(a seed|a tree|a $hero_kind who plants a seed)",
        "beats": [
            "@hero found a [tiny |brown ]seed (on the path|in $hero_his pocket|under a leaf) and planted it $at. every "
            "(day|morning) $hero_he gave it water.",
            'days went by, and nothing (grew|happened). "(It is only a stone|Forget it|Nothing will grow here)," said '
            '$pal, a [$pal_adjective ]$pal_kind. "(I can wait|We will see|Good things take time)," @hero_says.',
            "(after $number weeks|one (morning|day)), there was (a green tip|a tiny leaf|something green). @hero "
            "(danced around it|told everyone|could hardly believe it). it grew (and grew|higher every day|as high as "
            "the house).",
            "in the (summer|autumn), it was full of (apples|pears|plums|cherries). @hero (gave the first one to "
            "$pal|shared them with everyone). @joy"],
        "questions": [("Who planted (the seed|it)?", "$hero the $hero_kind planted it."),
                      ("Where did $hero plant (the seed|it)?", "$hero planted it $at.")],
    },
    "music": {
        "thing": False,
        "about": "(music|a song|a $hero_kind who sings|a $hero_kind who plays music)",
        "beats": [
            "@hero loved music, but $hero_he had no (flute|fiddle|drum). so $hero_he (made one out of wood|tapped on "
            "pots and pans|sang instead).",
            'it sounded (strange|awful|funny) at first. "(What a noise|Stop that|My ears)!" said $pal, a '
            '[$pal_adjective ]$pal_kind, and closed '
            "the window.",
            "but @hero practised (every day|morning and evening|in secret $at_far). @then it sounded (better|like rain "
            "on leaves|like a little river|sweet and clear).",
            'one evening, $pal opened the window again. "Who is playing so (well|beautifully)?" @ask @pal. "(It is '
            'only me|I practised)," @hero_says. (soon everyone (danced|sang along)|@pal sang along|they played until '
            'midnight). @joy'],
        "questions": [("Who (did not like|complained about) the music?",
                       "$pal the $pal_kind did not like it at first."),
                      ("What did $hero love?", "$hero loved music.")],
    },
    "storm": {
        "about": "(a storm|a $hero_kind in the rain)",
        "beats": [
            "@hero was on the way to $far when (a storm broke|the sky turned black|lightning flashed). the (rain|hail) "
            "came down (in buckets|like a wall), and $hero_he was soon (wet|cold and wet).",
            "@suddenly, $hero_he saw a (light|little house|cave|hollow tree). @hero knocked. \"Who is there?\" @ask a "
            "voice. it was $pal, a [$pal_adjective ]$pal_kind.",
            '"(May I come in|Is there room for one more)?" @ask @hero. "(There is always room|Come in, quickly|Of '
            'course)," @pal_says. '
            "inside it was (warm|dry and warm), and there was $food.",
            "they (told stories|played games|listened to the thunder|sat by the fire) until (the storm was over|the "
            "rain stopped). @then a rainbow stood over $place. @joy"],
        "questions": [("Where (was|did) $hero (going|go)?", "$hero was on the way to $far."),
                      ("Who opened the door?", "$pal the $pal_kind opened it.")],
    },
    "secret": {
        "thing": True,
        "about": "(a secret|a treasure|a $hero_kind who finds a $thing)",
        "beats": [
            "@hero found a $looks $thing (in the attic|under the floor|at the bottom of a (well|chest)). there was a "
            "(word|number|sign) on it, and it said: $far.",
            '@meet "(What have you got there|Where did you find that)?" @ask @pal. @hero (showed it to $pal_him|told '
            '$pal_him everything).',
            '"(Let us go and see|I know the way|We must go there)," said @pal. so they (went|walked|set out) to $far. '
            '(there they dug|they '
            "searched) for $number hours[, and (their hands were sore|it grew late)].",
            "@suddenly they (hit|found|saw) an old chest. inside (there was no gold|lay only a letter): (only a "
            "letter|a few words). \"(Whoever (finds|reads) this has a (true|good) friend|The treasure is the one "
            "beside you),\" it said. @hero looked at @pal and (laughed|smiled|understood)."],
        "questions": [("What did $hero find?", "$hero found a $looks $thing."),
                      ("Where (was the treasure|did they dig)?", "it was $at_far.")],
    },
    "quarrel": {
        "thing": True,
        "about": "(a quarrel|two friends|a $hero_kind and a $pal_kind who quarrel)",
        "beats": [
            "@hero had a friend, a [$pal_adjective ]$pal_kind called $pal. one day they found a $looks $thing (on the "
            "path|by the road|in the grass).",
            '"(It is mine|I saw it first)," said @hero. "(No, it is mine|No, I did)," @say @pal. they '
            '(pulled|shouted|argued) until '
            "(the $thing fell down|it broke in two|both were tired).",
            "@pal went (home|away) without a word. @hero (kept the $thing|sat there alone), but it was no fun. @sad",
            '@then @hero went to the house of $pal. "(I am sorry|I was wrong|You can have it)," @hero_says. "(I am '
            'sorry too|We can share it|Keep it)," @say @pal. (they shook hands|they hugged|both had to laugh). '
            '[@meal]'],
        "questions": [("(What did they quarrel about|What did they find)?",
                       "(it was|they quarrelled about) a $looks $thing."),
                      ("Who said sorry first?", "$hero said sorry first.")],
    },
}

RULES["thanks_pal"] = ('("(Thank you|You are (kind|good))[, $hero]," @pal_says.|@pal (ate|finished) every '
                       '(bit|crumb) of it.)')
