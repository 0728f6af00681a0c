//! A generated conversation: 300 messages of small talk with 25 facts in the first 120 of them. Nothing in it was taken from the
//! rules that are measured with it: many facts have no cue word at all, a third is in other languages than English, and the small
//! talk has names, numbers and questions of its own.

/// A message of somebody, and the answer to it.
pub(crate) struct Said {
    pub(crate) who: &'static str,
    pub(crate) text: String,
    pub(crate) answer: String,
}

pub(crate) struct Talk {
    pub(crate) said: Vec<Said>,
    /// For each planted fact the words that must all be found where it is kept.
    pub(crate) facts: Vec<&'static [&'static str]>,
}

const N_MESSAGES: usize = 300;
const N_FACTS: usize = 25;

/// Facts are planted before this message.
const EARLY: usize = 120;

/// What is planted, and the words by which it is told to be there.
const FACTS: &[(&str, &[&str])] = &[
    ("Decided: 25 April.", &["25 April"]),
    ("So it's settled then, the retreat will be in Porto.", &["retreat", "Porto"]),
    ("Final call from the board: we take the blue tiles for the kitchen.", &["blue tiles"]),
    ("We are going with Hetzner, the other offer was too slow.", &["Hetzner"]),
    ("I'll send the lease to Mara before Thursday.", &["lease", "Mara"]),
    ("You can count on me for the projector on the 9th.", &["projector", "9th"]),
    ("Leave the insurance letter to me, I'll have it done by 14 June.", &["insurance", "14 June"]),
    ("I gave Otto my word that the boat is painted by Whitsun.", &["Otto", "boat"]),
    ("Careful, the alarm code is now 9046.", &["9046"]),
    ("Scratch that, the train goes at 7:52, not at 8:10.", &["7:52"]),
    ("Correction: the invoice is for 1,480 euros.", &["1,480"]),
    ("My mistake, her surname is Lindqvist with a q.", &["Lindqvist"]),
    ("The deposit was 1,350 euros.", &["1,350"]),
    ("The attic is 38 square metres, measured twice.", &["attic", "38"]),
    ("We have used 212 litres of heating oil so far.", &["212"]),
    ("Locker 417 is ours until the end of the season.", &["417"]),
    ("The midwife is called Ilse Vogt.", &["Ilse Vogt"]),
    ("Talk to Dr. Okafor about the knee, nobody else.", &["Okafor"]),
    ("Our plumber is Benedikt Straub, the one with the red van.", &["Straub"]),
    ("My sister-in-law Joanna runs the bakery in Leith.", &["Joanna", "Leith"]),
    ("The dentist sees me on 3 March at 14:20.", &["3 March"]),
    ("Vaccination of the twins: 2026-10-17.", &["2026-10-17"]),
    ("The lease runs out on 30 September.", &["30 September"]),
    ("Grandma turns ninety on 8 July.", &["8 July"]),
    ("The ticket for the printer is OPS-4417.", &["OPS-4417"]),
    ("Backups land on db-prod-07 every night.", &["db-prod-07"]),
    ("The router's admin page is at 192.168.7.1.", &["192.168.7.1"]),
    ("Use the voucher WALRUS-88 when you order.", &["WALRUS-88"]),
    ("The spare key lies under the blue flower pot.", &["spare key", "flower pot"]),
    ("Tom cannot eat walnuts, he swells up at once.", &["walnuts"]),
    ("The vegetarian lasagne is for the choir, not for us.", &["lasagne", "choir"]),
    ("The stopcock is behind the washing machine.", &["stopcock", "washing machine"]),
    ("Der Zahnarzttermin ist am 12. Mai um 9 Uhr.", &["12. Mai"]),
    ("Wir haben uns auf den Zug um 9:12 geeinigt.", &["9:12"]),
    ("Die neue Vermieterin heißt Frau Kowalczyk.", &["Kowalczyk"]),
    ("Le code de la cave est 5521.", &["5521"]),
    ("On part finalement le 18 août avec la voiture de Solène.", &["18 août"]),
    ("Quedamos en el Café Pombo a las 21:30.", &["Pombo"]),
    ("La contraseña del wifi es tucán-naranja-6.", &["tucán-naranja-6"]),
    ("Il notaio Bellandi ci aspetta il 4 novembre.", &["Bellandi", "4 novembre"]),
    ("A chave do sótão está com a Dona Graça.", &["Graça"]),
    ("De vergadering is verplaatst naar 19 januari.", &["19 januari"]),
    ("Ключ от дачи у Тамары Ильиничны.", &["Тамары"]),
    ("Hyran är 8 640 kronor från och med mars.", &["640"]),
    ("房东的电话是 13800571234。", &["13800571234"]),
];

const FIRST: &[&str] = &[
    "the bus was packed again",
    "this rain never stops",
    "I slept badly",
    "that series gets silly",
    "my tea went cold twice",
    "the neighbours sang until late",
    "somebody burned the toast",
    "the lift is broken once more",
    "I forgot my umbrella",
    "the pigeons are back on the balcony",
    "my shoes are still wet",
    "the printer jammed right away",
    "the cat stole a sausage",
    "our street was closed for a parade",
    "I laughed so hard at that film",
    "the soup needs more salt",
    "the queue went round the corner",
    "my bike squeaks like a mouse",
    "the sunset looked painted",
    "everybody seems to have a cold",
    "I hate these Mondays",
    "the garden is full of slugs",
    "that song is stuck in my head",
    "the new café is far too loud",
    "my phone battery died at noon",
    "the meeting dragged on",
    "I bought far too many plums",
    "the heating makes funny noises",
    "we got lost on the way home",
    "the kids built a cave of blankets",
];

const THEN: &[&str] = &[
    "and the coffee did not help",
    "so I just stared out of the window",
    "but what can you do",
    "and nobody said a word",
    "which made my day somehow",
    "and I gave up in the end",
    "so we had pancakes instead",
    "but at least it was warm",
    "and the dog looked offended",
    "so I took a long nap",
    "and everyone pretended not to notice",
    "but it could be worse",
    "and I still smell of smoke",
    "which is typical, of course",
    "so I am grumpy today",
    "and my sister found it hilarious",
    "but the light was lovely",
    "and that was that",
    "so I read the paper twice",
    "and it took ages to dry",
];

const MORE: &[&str] = &[
    "It took me 20 minutes to find a seat.",
    "Lena laughed about it all evening.",
    "On Monday it was just the same.",
    "That old tune by Abba does not help either.",
    "I had two slices of cake to make up for it.",
    "Some things never change, I guess.",
    "My legs are still tired from the stairs.",
    "The weather people promised sun, as always.",
    "At least the bread was fresh.",
    "I should really go to bed earlier.",
    "Even Marcus had to smile.",
    "There were about 50 people in front of us.",
    "It reminded me of that summer in Brighton.",
    "Nothing that a good film could not fix.",
    "Maybe the weekend gets better.",
    "I am not a morning person anyway.",
    "The whole place smelled of onions.",
    "One of these days I will learn the ukulele.",
    "And then the phone rang, of course.",
    "We counted 7 magpies on the roof.",
    "Anyway, I am off to feed the cat.",
    "It felt like the 1980s in there.",
    "I could talk about that for hours.",
    "My aunt would have loved it.",
];

const QUESTIONS: &[&str] = &[
    "Did anybody else see that?",
    "How was your weekend, Tom?",
    "What is for lunch today?",
    "Has it stopped raining where you are?",
    "Who took the last biscuit?",
    "Do you ever feel like that?",
    "Is it only me?",
    "What are you all reading at the moment?",
    "Has anyone tried the new Thai place?",
    "Are you coming along tonight, Nora?",
    "Why is it always the left sock?",
];

const ANSWERS: &[&str] = &[
    "That sounds like quite a day. I hope that it gets calmer soon.",
    "Ha, I can picture it. Some days are like that.",
    "Oh dear. A warm drink and a blanket usually help.",
    "That is a nice way to look at it.",
    "I see. Tell me more about it if you like.",
    "Thank you for sharing that. It made me smile.",
    "Understandable. Small things can lift a mood, and small things can spoil it.",
    "Good to hear from you. It is quiet here otherwise.",
    "I would not worry too much about it.",
    "That is how the best stories begin.",
];

const PEOPLE: &[&str] = &["Ada", "Tom", "Nora", "Wim"];

/// Numbers from a seed: a linear congruential generator, as good as needed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % n
    }

    fn one<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

fn small_talk(dice: &mut Dice) -> String {
    let mut text = format!("{}, {}.", dice.one(FIRST), dice.one(THEN));
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    for _ in 0..2 + dice.below(5) {
        text = format!("{text} {}", dice.one(MORE));
    }
    if dice.below(5) == 0 { format!("{text} {}", dice.one(QUESTIONS)) } else { text }
}

/// The conversation of that seed: which facts, where, by whom, alone or amid small talk.
pub(crate) fn talk(seed: u64) -> Talk {
    let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut order: Vec<usize> = (0..FACTS.len()).collect();
    let mut places: Vec<usize> = (0..EARLY).collect();
    for list in [&mut order, &mut places] {
        for last in (1..list.len()).rev() {
            list.swap(last, dice.below(last + 1));
        }
    }
    let facts: Vec<usize> = order.into_iter().take(N_FACTS).collect();
    let said = (0..N_MESSAGES).map(|idx| {
        let fact = places.iter().take(N_FACTS).position(|place| *place == idx).map(|nth| FACTS[facts[nth]].0);
        let text = match (fact, dice.below(2)) {
            (Some(fact), 0) => fact.to_owned(),
            (Some(fact), _) => format!("{} {fact}", small_talk(&mut dice)),
            (None, _) if dice.below(12) == 0 => dice.one(QUESTIONS).to_owned(),
            (None, _) => small_talk(&mut dice),
        };
        let answer = format!("{} {} {}", dice.one(ANSWERS), dice.one(ANSWERS), dice.one(ANSWERS));
        Said { who: dice.one(PEOPLE), text, answer }
    });
    Talk { said: said.collect(), facts: facts.iter().map(|fact| FACTS[*fact].1).collect() }
}
