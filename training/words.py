"""Words and phrases that the corpus's templates are filled with."""

# ruff: noqa: SIM905  (word lists read better as text)

NOUNS = """
dog cat horse bird fish cow pig sheep mouse tree flower garden house room kitchen table chair window door floor wall
roof street road bridge river lake sea ocean beach hill mountain forest field farm town city village school teacher
student book page story letter word pencil paper doctor nurse hospital church market shop store bank money coin dollar
price ticket train bus car truck bicycle boat ship plane airport hotel restaurant food bread butter cheese milk egg
meat rice soup salad apple orange lemon banana grape cherry potato tomato onion carrot cake cookie sugar salt pepper
coffee tea juice water bottle glass cup plate bowl spoon fork knife shirt coat dress hat shoe sock glove pocket button
ring watch clock phone camera radio picture music song piano guitar drum game ball team player sister brother mother
father uncle aunt cousin baby child woman man boy girl friend neighbor king queen soldier farmer driver worker artist
singer writer lawyer judge police fire smoke cloud rain snow storm wind sun moon star sky morning evening night week
month year summer winter spring autumn birthday party holiday weekend minute hour second north south east west box bag
rope chain nail hammer wheel engine machine computer keyboard screen lamp candle mirror blanket pillow bed bath towel
soap brush comb needle thread leather cotton silk wool gold silver iron steel copper stone brick sand dust mud grass
leaf branch root seed fruit nut honey bee ant spider snake frog duck goose chicken turkey rabbit fox wolf bear lion
tiger elephant monkey whale shark head face eye ear nose mouth tooth tongue neck shoulder arm hand finger chest back
leg knee foot heart blood bone skin voice noise question answer idea problem reason plan dream secret promise mistake
lesson chance choice change charge judgment measure pleasure treasure vision garage package message language bandage
edge badge thumb path cloth truth youth health wealth breath death birth earth worth feather weather office meeting
appointment library museum theater station passenger luggage suitcase umbrella newspaper envelope stamp password screen
battery charger kettle oven fridge recipe breakfast lunch dinner sandwich dessert customer manager company contract
invoice report project deadline budget signal speaker microphone conversation sentence paragraph number
""".split()

ADJECTIVES = """
big small large little tall short long wide narrow thick thin heavy light dark bright red blue green yellow white black
brown gray pink purple old young new fresh clean dirty wet dry hot cold warm cool soft hard smooth rough sharp round
square flat deep shallow high low fast slow quick quiet loud strong weak rich poor happy sad angry hungry thirsty tired
sleepy brave clever foolish kind cruel gentle nice pretty ugly beautiful lovely sweet sour bitter salty strange common
rare simple easy difficult cheap expensive empty full busy free safe dangerous careful careless useful useless wooden
golden broken open closed early late ready final perfect modern ancient famous foreign local huge tiny gigantic usual
unusual casual shiny rusty dusty muddy cloudy sunny windy rainy noisy lazy crazy funny serious healthy sick important
""".split()

TRANSITIVE = """
sees finds takes makes buys sells brings carries holds drops throws catches kicks pushes pulls opens closes breaks
fixes builds paints cleans washes cooks eats drinks cuts reads writes draws hears likes loves hates needs wants knows
remembers forgets follows leads helps teaches watches visits leaves loses wins moves keeps hides shows gives sends gets
saves counts measures covers touches smells tastes changes chooses chases crosses enjoys judges reaches shares touched
found took made bought sold brought carried held dropped threw caught kicked pushed pulled opened closed broke fixed
built painted cleaned washed cooked ate drank chose read wrote drew heard liked loved hated needed wanted knew
remembered forgot followed led helped taught watched visited left lost won moved kept hid showed gave sent got saved
counted measured covered
""".split()

INTRANSITIVE = """
runs walks jumps swims flies sleeps sings dances laughs cries smiles talks speaks waits works plays stands sits falls
rises grows shines arrives stops starts travels listens ran walked jumped swam flew slept sang danced laughed cried
smiled talked spoke waited worked played stood sat fell rose grew shone arrived stopped started traveled listened
""".split()

BASE_VERBS = """
see find take make buy sell bring carry hold drop throw catch push pull open close break fix build paint clean wash
cook eat drink cut read write draw hear like love need want know remember forget follow help teach watch visit leave
lose win move keep hide show give send get save count measure cover touch smell taste change choose chase cross enjoy
reach share check repeat finish order borrow return answer call
""".split()

ADVERBS = """
quickly slowly quietly loudly gently carefully easily happily sadly often always never sometimes usually today tomorrow
yesterday again soon later early together alone outside inside upstairs nearby everywhere somewhere twice once well
badly now already finally almost
""".split()

PREPOSITIONS = """
in on under over near behind beside above below across through around along into onto from with without against between
beyond toward before after during inside outside
""".split()

NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen
nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million first second third fourth fifth
""".split()

WEEKDAYS = "Monday Tuesday Wednesday Thursday Friday Saturday Sunday".split()
MONTHS = "January February March April May June July August September October November December".split()
DAYS = [*WEEKDAYS, *MONTHS]

PRONOUNS = "I you he she we they".split()
POSSESSIVES = "my your his her our their".split()
MODALS = ["can", "will", "could", "should", "must", "might", "would", "did not", "cannot", "will not", "don't", "can't"]
CONJUNCTIONS = "when because if while after before although since unless until".split()
QUESTIONS = "where when why how".split()
AUXILIARIES = "do did can will could would should".split()
OPENERS = ["yes", "no", "well", "now", "okay", "oh", "sorry", "hello", "thanks", "good morning", "in fact", "of course"]

# Said alone: short utterances are heard most and are hardest to learn, so each appears with every ending.
PHRASES = [
    "yes", "no", "hello", "hi", "hey", "goodbye", "bye", "thank you", "thanks", "please", "good night", "good morning",
    "good evening", "see you soon", "okay", "welcome", "stop", "go", "wait", "go ahead", "not yet", "of course", "help",
    "sorry", "excuse me", "never mind", "come in", "sit down", "stand up", "be quiet", "look out", "what", "why", "who",
    "where", "when", "how", "really", "maybe", "sure", "right", "left", "up", "down", "on", "off", "in", "out", "now",
    "later", "never", "always", "again", "ready", "done", "great", "fine", "good", "bad", "nice", "cool", "hello there",
    "hello world", "I know", "I see", "I think so", "I hope so", "I am here", "it is late", "that is all", "let me see",
    "who is there", "what is that", "how are you", "where are you", "this way", "one moment", "take care", "have fun",
    "well done", "good luck", "no way", "you too", "me too", "so what", "come on", "hurry up", "slow down",
    "keep going",
]  # fmt: skip

# First names and places that everyday sentences have; the lexicon lacks many of them.
_PEOPLE_AND_PLACES = """
Mary Maria Anna Emma Julia Laura Sarah Sara Susan Linda Karen Nancy Lisa Betty Helen Sandra Donna Carol Ruth Sharon
Michelle Kate Katie Alice Amy Rachel Rebecca Olivia Sophia Sophie Emily Grace Ella Lucy Hannah Chloe Mia Eva Nina Nora
Clara Rosa Elena Irene Diana Victoria Charlotte Margaret Elizabeth Jennifer Jessica Amanda Melissa Stephanie Catherine
James John Robert Michael William David Richard Joseph Thomas Charles Daniel Matthew Anthony Mark Paul Steven Andrew
Kenneth George Joshua Kevin Brian Edward Ronald Timothy Jason Jeffrey Ryan Jacob Gary Nicholas Eric Stephen Jonathan
Larry Justin Scott Brandon Frank Benjamin Gregory Samuel Sam Patrick Alexander Alex Jack Dennis Jerry Tyler Aaron Jose
Henry Adam Douglas Nathan Peter Tom Tim Jim Bob Bill Ben Max Leo Oscar Oliver Harry Simon Martin Victor Felix Hugo
Carlos
Smith Johnson Williams Brown Jones Miller Davis Wilson Anderson Taylor Moore Jackson Thompson White Harris Clark Lewis
Robinson Walker Young Allen King Wright Green Baker Adams Nelson Hill Carter Mitchell Roberts Turner Phillips Campbell
Parker Evans Edwards Collins Stewart Morris Murphy Cook Rogers Morgan Cooper Peterson Reed Bailey Kelly Howard Ward
Paris London Berlin Madrid Rome Vienna Lisbon Athens Dublin Moscow Tokyo Beijing Delhi Cairo Sydney Toronto Boston
Chicago
Houston Dallas Denver Seattle Miami Atlanta Washington York Oxford Cambridge Edinburgh Glasgow Manchester Liverpool
France Germany Spain Italy England Scotland Ireland Wales Greece Turkey Russia China Japan India Egypt Canada Mexico
Brazil Australia America Europe Africa Asia Sweden Norway Denmark Finland Poland Austria Switzerland Holland Belgium
Portugal Texas Florida California Virginia Ohio English French German Spanish Italian Russian Chinese Japanese American
British European Indian Christmas Easter
""".split()
NAMES = [*_PEOPLE_AND_PLACES, *MONTHS, *WEEKDAYS, *"Google Amazon Internet Earth Mars Venus Mister Doctor".split()]
