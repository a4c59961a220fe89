"""Classes of English words for the rules of the tagger."""

from __future__ import annotations

from typing import Final

from app.text.word_sets import word_set

POSSESSIVES: Final = word_set("my your his her its our their whose")
DETERMINERS: Final = word_set(
    "a an the this that these those each every some any no another either neither both all such what which"
) | (POSSESSIVES)
SUBJECTS: Final = word_set("i you we they he she it who")
THIRD_PERSON: Final = word_set("he she it")
OBJECTS: Final = word_set("me you him her it us them this that these those")
MODALS: Final = word_set(
    "will would can could shall should must may might cannot do does did let let's please don't doesn't didn't won't "
    "wouldn't can't couldn't shouldn't mustn't shan't needn't i'll you'll he'll she'll it'll we'll they'll i'd you'd "
    "he'd she'd we'd they'd who'll that'll gonna wanna gotta"
)
BE: Final = word_set(
    "am is are was were be been being isn't aren't wasn't weren't i'm you're he's she's it's we're they're that's "
    "there's who's get gets got getting"
)
HAVE: Final = word_set("have has had having haven't hasn't hadn't i've you've we've they've who've")
PREPOSITIONS: Final = word_set(
    "of in on at by for with from into onto about over under after before between through during without within "
    "against across behind beyond near off out per since than toward towards until upon via like as"
)
CONJUNCTIONS: Final = word_set("and or but then nor so")
ADVERBS: Final = word_set(
    "not never always yet often sometimes usually also just still only really ever already now then soon once again "
    "simply even almost actually currently instead"
)
DEGREE: Final = word_set("very too so quite rather more most less least pretty extremely how")
FUNCTION: Final = (
    DETERMINERS | SUBJECTS | OBJECTS | MODALS | BE | HAVE | PREPOSITIONS | CONJUNCTIONS | ADVERBS | DEGREE
) | word_set("to there here when where why if because while though although not")
VERBS_OF_SAYING: Final = word_set(
    "say says said think thinks thought believe believes believed know knows knew hope hopes hoped feel feels felt "
    "mean means meant show shows showed shown see sees find finds found hear heard claim claims claimed suggest "
    "suggests suggested ensure ensures note noted realise realize realized argue argues argued agree agreed fear "
    "feared sure certain glad afraid happy sorry true clear told tell tells so such fact idea hope report reports "
    "reported explain explains explained insist insisted assume assumes assumed require requires required"
)
WINDING: Final = word_set(
    "path road river trail stream street lane route track creek staircase line he she it who which queue canyon"
)
PAST_SIGNS: Final = word_set(
    "yesterday ago last was were had did went came said took made got saw knew wrote told gave found left earlier "
    "previously once then"
)
MINUTE_NOUNS: Final = word_set(
    "detail details amount amounts quantity quantities particle particles trace traces fraction difference differences "
    "quantities attention inspection variation variations change changes"
)
EMPHASIZED: Final = word_set("IS OR IN ME HE MY AS OH IF SO NO DO BE WE ON AT TO OF BY AN HI AND")
HABITUAL_VERBS: Final = word_set(
    "be have live work play go come say tell think love like hate want know feel sing smoke drink eat walk run belong "
    "call visit see take teach stay dream believe sit travel"
)
# Words with several readings that are adjectives before a noun ("an invalid token", "an elaborate plan").
ADJECTIVES: Final = word_set(
    "invalid covert overweight uptown downhill deliberate elaborate animate incarnate consummate nominate designate "
    "diffuse converse obverse outright prostrate inside nearby downstairs learned compact minute cleanly adulterate "
    "upset attenuate degenerate mediate obligate reincarnate regenerate truncate undulate unlearned inebriate"
)
QUESTION_STARTS: Final = frozenset(("", "why", "when", "how", "what", "where", "who", "and", "but", "so", "or"))
DOVE_MODIFIERS: Final = word_set("white grey gray mourning turtle rock little wounded dead single wild pure")
# Plurals that stand before a noun: "a sales record".
PLURAL_MODIFIERS: Final = word_set(
    "sales sports goods arms news customs systems savings series species states olympics physics"
)
CLAUSE_STARTS: Final = CONJUNCTIONS | DETERMINERS | word_set("most many some few when if as") | {""}
BROADCAST_VERBS: Final = word_set(
    "go goes went going stream streams streamed watch watched play plays played perform performs performed sing sang "
    "broadcast air airs aired recorded reporting appear appeared captured"
)
BARE_INFINITIVE_VERBS: Final = word_set("help helps lets watch")
