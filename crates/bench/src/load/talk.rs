//! What people and the model say in a load run: four kinds of text, many sizes, the same for the same seed.

use std::fmt::Write;

use cairn_testkit::random::Random;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    English,
    Chinese,
    Json,
    Code,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::English, Self::Chinese, Self::Json, Self::Code];

    pub fn name(self) -> &'static str {
        match self {
            Self::English => "english",
            Self::Chinese => "chinese",
            Self::Json => "json",
            Self::Code => "code",
        }
    }
}

const WHO: [&str; 12] = [
    "Anna",
    "Ben",
    "Carla",
    "Dmitri",
    "the landlord",
    "my sister",
    "the plumber",
    "our teacher",
    "nobody here",
    "the team",
    "Chloé",
    "the new intern",
];
const DID: [&str; 16] = [
    "has promised to send",
    "forgot to mention",
    "would like to change",
    "is still waiting for",
    "wrote a long letter about",
    "cannot find",
    "paid twice for",
    "put off",
    "asked three times about",
    "finally repaired",
    "compared",
    "was surprised by",
    "translated",
    "sold",
    "keeps talking about",
    "wants us to decide on",
];
const WHAT: [&str; 20] = [
    "the kitchen window",
    "the budget of the garden party",
    "the second invoice",
    "the ferry to Uppsala",
    "that recipe with plums",
    "the backup of the old server",
    "our lease",
    "the piano lesson",
    "the report on bridges",
    "the lighthouse tour",
    "a better mattress",
    "the broken projector",
    "the vaccination of the cat",
    "the minutes of the meeting",
    "the choir's concert",
    "the door of the cellar",
    "the tax form",
    "the photos from Graz",
    "the bicycle with the blue frame",
    "the list of guests",
];
const WHEN: [&str; 12] = [
    "before Thursday",
    "since last winter",
    "at half past seven",
    "on the way home",
    "as soon as it stops raining",
    "in June",
    "after the holidays",
    "every other week",
    "without telling anybody",
    "for the third time",
    "although it is late",
    "during the break",
];

const ZH: [&str; 28] = [
    "我们昨天在河边的茶馆见面",
    "他说下个月要搬到杭州去住",
    "这份合同还需要再检查一遍",
    "孩子们在院子里种了三棵苹果树",
    "请把会议记录发给所有的人",
    "冰箱里的牛奶已经过期了",
    "火车因为大雪晚点了四十分钟",
    "奶奶做的红烧肉比饭店的好吃",
    "新来的同事会说四种语言",
    "明天上午九点半在图书馆门口集合",
    "这个价格比去年便宜了不少",
    "我忘了带雨伞所以全身都湿了",
    "医生建议他每天走一万步",
    "我们决定先修屋顶再换窗户",
    "照片都存在那台旧电脑里",
    "她的小提琴考试推迟到了秋天",
    "你能不能帮我翻译这一段话",
    "周末去爬山的人请在这里报名",
    "楼下的面包店换了老板",
    "电池用完之前一定要保存文件",
    "他们对结果并不满意",
    "春节的车票很难买到",
    "隔壁的猫又跑到我们阳台上来了",
    "这个问题明天再讨论吧",
    "天气预报说后天会有台风",
    "我把钥匙交给了门口的保安",
    "新的教室在三楼走廊的尽头",
    "大家都觉得第二个方案更好",
];

const NAMES: [&str; 16] = [
    "order", "window", "invoice", "status", "teacher", "market", "bridge", "reader", "buffer", "cursor",
    "retry", "limit", "queue", "parser", "segment", "channel",
];

#[derive(Debug, Clone)]
pub struct Talk {
    random: Random,
}

impl Talk {
    pub fn new(seed: u64) -> Self {
        Self { random: Random::new(seed) }
    }

    /// The words of the `n`th thing of that seed, whatever came before.
    pub fn nth(seed: u64, n: u64) -> Self {
        let mut talk = Self::new(seed ^ n.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        talk.random.below(1);
        talk
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn of(&mut self, words: &[&'static str]) -> &'static str {
        self.random.of(words)
    }

    /// A kind: half English, a quarter Chinese, the rest JSON and code.
    pub fn kind(&mut self) -> Kind {
        match self.below(8) {
            0..=3 => Kind::English,
            4 | 5 => Kind::Chinese,
            6 => Kind::Json,
            _ => Kind::Code,
        }
    }

    /// A size in pieces (sentences, fields, lines): most are small, one in forty is large.
    pub fn size(&mut self) -> usize {
        let (least, more) = match self.below(40) {
            0 => (24, 24),
            1..=6 => (8, 12),
            7..=20 => (3, 5),
            _ => (1, 2),
        };
        (least + self.below(more)) as usize
    }

    /// A text of that kind with so many pieces.
    pub fn text(&mut self, kind: Kind, size: usize) -> String {
        match kind {
            Kind::English => (0..size).map(|_| self.english()).collect::<Vec<_>>().join(" "),
            Kind::Chinese => (0..size).map(|_| self.chinese()).collect(),
            Kind::Json => self.json(size),
            Kind::Code => self.code(size),
        }
    }

    fn english(&mut self) -> String {
        let (who, did, what, when) = (self.of(&WHO), self.of(&DID), self.of(&WHAT), self.of(&WHEN));
        let end = match self.below(5) {
            0 => "?".to_owned(),
            1 => format!(", which costs {}.{:02} euros.", self.below(900), self.below(100)),
            2 => format!(", and I think {} knows why!", self.of(&WHO)),
            _ => ".".to_owned(),
        };
        let mut sentence = format!("{who} {did} {what} {when}{end}");
        if let Some(first) = sentence.get_mut(..1) {
            first.make_ascii_uppercase();
        }
        sentence
    }

    fn chinese(&mut self) -> String {
        let (a, b) = (self.of(&ZH), self.of(&ZH));
        match self.below(4) {
            0 => format!("{a}。"),
            1 => format!("{a}，花了{}块钱！", self.below(900) + 10),
            _ => format!("{a}，{b}。"),
        }
    }

    fn json(&mut self, size: usize) -> String {
        let items: Vec<serde_json::Value> = (0..size.div_ceil(2))
            .map(|_| {
                serde_json::json!({
                    "id": format!("{:08x}-{:04x}", self.below(u64::from(u32::MAX)), self.below(0xffff)),
                    "kind": self.of(&NAMES),
                    "count": self.below(10_000),
                    "price": self.below(100_000) as f64 / 100.0,
                    "open": self.below(2) == 1,
                    "note": self.of(&WHAT),
                })
            })
            .collect();
        let text = match self.below(2) {
            0 => serde_json::to_string(&items),
            _ => serde_json::to_string_pretty(&items),
        };
        text.unwrap_or_default()
    }

    fn code(&mut self, size: usize) -> String {
        let mut text = format!("fn {}_{}(", self.of(&NAMES), self.of(&NAMES));
        let _ = writeln!(
            text,
            "{}: &mut Vec<u64>, {}: usize) -> Result<(), Error> {{",
            self.of(&NAMES),
            self.of(&NAMES)
        );
        for _ in 0..size {
            let (a, b, n) = (self.of(&NAMES), self.of(&NAMES), self.below(512));
            let _ = match self.below(5) {
                0 => writeln!(
                    text,
                    "    let {a} = self.{b}.iter().map(|item| item.len() + {n}).sum::<usize>();"
                ),
                1 => writeln!(
                    text,
                    "    if {a}.is_empty() || {b} > {n} {{\n        return Err(Error::new(\"{a} is empty\"));\n    }}"
                ),
                2 => writeln!(
                    text,
                    "    for (idx, {a}) in {b}.chunks({n}).enumerate() {{ self.{a}_total += idx; }}"
                ),
                3 => writeln!(text, "    // The {a} waits for the {b}, at most {n} ms."),
                _ => writeln!(text, "    self.{a}.push({b}.saturating_sub({n}));"),
            };
        }
        text.push_str("    Ok(())\n}");
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_says_the_same_and_another_something_else() {
        for kind in Kind::ALL {
            assert_eq!(Talk::nth(1, 7).text(kind, 9), Talk::nth(1, 7).text(kind, 9));
            assert_ne!(Talk::nth(1, 7).text(kind, 9), Talk::nth(2, 7).text(kind, 9));
        }
        let sizes: Vec<usize> = (0..400).map(|n| Talk::nth(3, n).size()).collect();
        assert!(sizes.iter().any(|size| *size >= 24) && sizes.contains(&1));
    }
}
