//! The model chain of a turn: which model answers, what follows a failed call, and waiting while none answers.
//!
//! A chain of several tries the next model immediately. If no other is well, or the chain has only one, the call is retried
//! after a pause. From [`TurnEvent::ModelChosen`] on, requests are made by the settings on that model. The history keeps to the
//! window of the first one: a smaller model that stands in gets a smaller request, and nothing leaves for it.
//!
//! A turn does not fail because no model answers. A chat is told once that its message is kept; then the call is retried,
//! with growing pauses, until it is answered or stopped. A local turn does so within its time limit.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cairn_core::agent::{AgentSettings, WindowSize};
use cairn_core::chain::{ModelStanding, Pick, cools, pick};
use cairn_core::conversation::{Conversation, Learnt};
use cairn_core::engine::MakeRoom;
use cairn_core::notice;
use cairn_core::window::{Place, has_room, least_tokens};
use cairn_types::event::{DeliveryEvent, Event, ModelNews, TurnEvent};
use cairn_types::ids::Seq;
use cairn_types::model::{Attempt, ModelError};
use cairn_types::ports::TurnFailure;
use cairn_types::texts::Key;
use cairn_types::window_bounds::Suspicion;

use super::outage::note_id;
use super::state::Turn;
use super::tries::{Simpler, Tries};
use crate::agent::{NO_ROOM, told};
use crate::pace::{Pace, Paced};
use crate::{failure, telemetry};

/// Tries after a context overflow (`docs/design/models.md`).
const OVERFLOW_RETRIES: u32 = 3;

/// After an overflow, the request has to fit this share of the one that was refused.
const OVERFLOW_SHRINK: f64 = 0.7;

/// Least tokens of text that a message keeps beside its attachments.
const WORDS_MIN: u64 = 200;

/// Why another model answers: a text for the journal, a code for the metric.
struct Reason {
    reason: String,
    code: &'static str,
}

/// Longest pause that a server may ask for.
const ASKED_MAX: Duration = Duration::from_secs(10 * 60);

impl Turn {
    /// Chooses the first model of the chain that can answer, at the start of a turn.
    pub(super) async fn choose(&mut self) -> Result<(), TurnFailure> {
        self.catch_up().await?;
        let mut tries = Tries::new(&self.args.shared.live.limits());
        self.fail_back(&mut tries).await
    }

    /// Prepares the next call after a failed one.
    ///
    /// # Errors
    /// There is no next call.
    pub(super) async fn prepare_retry(
        &mut self,
        error: ModelError,
        tokens: u64,
        tries: &mut Tries,
    ) -> Result<(), TurnFailure> {
        match &error {
            ModelError::ContextOverflow { limit, .. } => {
                return self.too_large(&error, *limit, tokens, tries).await;
            }
            ModelError::NoTools(_) if !self.settings.tools.is_empty() => {
                return self.without_tools().await;
            }
            _ if self.suspects_size(&error, tokens, tries) => {
                return self.suspect_size(&error, tokens, tries).await;
            }
            _ => self.size_disproved(&error, tokens, tries).await?,
        }
        // A model that declines has accepted the form of the request.
        let is_of_form = matches!(error, ModelError::BadRequest { .. }) && error.may_be_of_content();
        if is_of_form && tries.simpler.attempt == Attempt::Whole {
            tries.simpler.attempt = Attempt::Simplified;
            return Ok(());
        }
        let (shared, model) = (self.args.shared.clone(), self.settings.model.clone());
        shared.live.models.failed(&model, &error, shared.ports.now());
        if !cools(&error) {
            tries.refused.insert(model.clone());
        }
        tries.errors.insert(model.clone(), error.clone());
        if self.fail_over(&error, tries).await? || self.simplify(&error, tries).await? {
            return Ok(());
        }
        self.outage_wait.failed();
        let asked = self.asked(&error, tries);
        let failed = match tries.attempt() {
            Attempt::Bare if error.may_be_of_content() => failure::refused(&model, &error),
            _ => failure::of_models(&model, &error, &tries.errors),
        };
        if self.outage_wait.waits && self.outage_wait.covers(&error) {
            self.budget.note(Some(failed));
            self.pause(&error, asked).await;
            return self.fail_back(tries).await;
        }
        let pause = if error.is_transient() { tries.next_pause() } else { None };
        let pause = pause.map(|pause| pause.max(asked.unwrap_or_default()));
        match pause.filter(|pause| *pause <= shared.live.limits().model_retry_max) {
            Some(pause) => {
                tracing::warn!(model, error = error.in_brief(), ?pause, "model call failed");
                let times = Arc::clone(&self.args.times);
                times.of_model(self.with_outage_note(tokio::time::sleep(pause))).await?;
            }
            None if self.outage_wait.covers(&error) => {
                tracing::warn!(model, error = error.in_brief(), "model call failed");
                self.begin_waiting(Some(&failed)).await?;
                self.budget.note(Some(failed));
                self.pause(&error, asked).await;
            }
            None => {
                tracing::warn!(
                    model,
                    error = error.in_brief(),
                    "model call failed; `cairn status` shows the server's error"
                );
                return Err(failed);
            }
        }
        self.fail_back(tries).await
    }

    /// Switches to another model, since no request fits the current one. False: there is none.
    pub(super) async fn no_room(&mut self, tries: &mut Tries) -> Result<bool, TurnFailure> {
        tries.refused.insert(self.settings.model.clone());
        let chain = self.standings(&tries.refused);
        let Some(picked) = pick(&chain).filter(|_| self.is_chain()) else { return Ok(false) };
        let why = Reason { reason: format!("`{}`: {NO_ROOM}", self.settings.model), code: "window" };
        self.switch(tries, picked.idx(), why).await.map(|()| true)
    }

    /// Whether the agent has more than one model.
    fn is_chain(&self) -> bool {
        self.agent.chain().nth(1).is_some()
    }

    /// The position of the current model in the chain.
    fn position(&self) -> usize {
        let mut chain = self.agent.chain();
        chain.position(|candidate| candidate.settings.model == self.settings.model).unwrap_or_default()
    }

    /// The settings on each model of the chain, as they are in this conversation.
    fn candidates(&self) -> Vec<Arc<AgentSettings>> {
        let chain = self.agent.chain();
        let settings: Vec<_> =
            self.args.handle.read(|conversation| chain.map(|one| one.settings_in(conversation)).collect());
        settings.into_iter().map(|settings| self.args.with_client_tools(settings)).collect()
    }

    /// The standing of each model in the chain. Those in `refused` are never asked.
    fn standings(&self, refused: &BTreeSet<String>) -> Vec<ModelStanding> {
        let (handle, models, now) =
            (&self.args.handle, &self.args.shared.live.models, self.args.shared.ports.now());
        let candidates = self.candidates();
        handle.read(|conversation| {
            let rows = candidates.iter().zip(self.agent.guarded());
            let standing = |(settings, guarded): (&Arc<AgentSettings>, &cairn_core::chain::Guarded)| {
                let refused = guarded.passed_over().is_some() || refused.contains(&settings.model);
                ModelStanding::of(conversation, settings, &models.health(&settings.model), refused, now)
            };
            rows.map(standing).collect()
        })
    }

    /// Why the model at `here` is replaced by the one that was picked.
    fn why(&self, chain: &[ModelStanding], here: usize, picked: Pick) -> Reason {
        let candidates = self.candidates();
        let (from, to) = (&candidates[here], &candidates[picked.idx()].model);
        let model = &from.model;
        if matches!(picked, Pick::Cooling(_)) {
            return Reason {
                reason: format!("no model is well; `{to}` is the first to come back"),
                code: "all_down",
            };
        }
        if picked.idx() < here {
            return Reason {
                reason: format!("`{to}` comes before `{model}` and can answer again"),
                code: "recovered",
            };
        }
        if let Some(reason) = self.agent.guarded()[here].passed_over() {
            return Reason { reason: format!("`{model}`: {reason}"), code: "window" };
        }
        let is_placed = |conversation: &Conversation| {
            has_room(&conversation.correction(model), from, Place::of(conversation))
        };
        if !self.args.handle.read(is_placed) {
            return Reason { reason: format!("`{model}`: {NO_ROOM}"), code: "window" };
        }
        let trouble = self.args.shared.live.models.health(model).trouble;
        let code = trouble.as_ref().map_or("cooling", |trouble| trouble.code);
        let reason = match (&trouble, chain[here].cooling_until) {
            (Some(trouble), Some(until)) => {
                format!("`{model}` is skipped until {until:.0}: {}", told(trouble))
            }
            _ => format!("`{model}` cannot answer"),
        };
        Reason { reason, code }
    }

    /// Switches to the next model that is well. False: there is none.
    async fn fail_over(&mut self, error: &ModelError, tries: &mut Tries) -> Result<bool, TurnFailure> {
        if !self.is_chain() {
            return Ok(false);
        }
        let here = self.position();
        // A model that has failed for this very request is not asked next, however short its cool-down.
        let tried: BTreeSet<String> = tries.refused.iter().chain(tries.errors.keys()).cloned().collect();
        match pick(&self.standings(&tried)) {
            Some(Pick::Well(idx)) if idx != here => {
                let why =
                    Reason { reason: format!("`{}`: {error}", self.settings.model), code: error.code() };
                self.switch(tries, idx, why).await.map(|()| true)
            }
            _ => Ok(false),
        }
    }

    /// The pause that the next model's server asked for.
    fn asked(&self, error: &ModelError, tries: &Tries) -> Option<Duration> {
        if !self.is_chain() {
            return error.retry_after();
        }
        let picked = pick(&self.standings(&tries.refused))?;
        let model = self.candidates()[picked.idx()].model.clone();
        self.args.shared.live.models.health(&model).asked(self.args.shared.ports.now())
    }

    /// Returns to the first model of the chain that is well, or that will be first.
    async fn fail_back(&mut self, tries: &mut Tries) -> Result<(), TurnFailure> {
        if !self.is_chain() {
            return Ok(());
        }
        let (chain, here) = (self.standings(&tries.refused), self.position());
        match pick(&chain) {
            Some(picked) if picked.idx() != here => {
                let why = self.why(&chain, here, picked);
                self.switch(tries, picked.idx(), why).await
            }
            _ => Ok(()),
        }
    }

    /// Switches to the model at `idx`. From now on requests are made by its settings.
    async fn switch(&mut self, tries: &mut Tries, idx: usize, why: Reason) -> Result<(), TurnFailure> {
        tries.overflows = 0;
        tries.suspicion = Suspicion::default();
        tries.simpler = Simpler::default();
        let (from, to) = (self.settings.model.clone(), self.candidates()[idx].model.clone());
        let (reason, code) = (why.reason, why.code);
        if code == "recovered" {
            tracing::info!(from, to, code, "an earlier model of the chain answers again");
        } else {
            tracing::warn!(from, to, code, "another model of the chain answers");
        }
        metrics::counter!("cairn_failovers_total", "from" => from, "to" => to.clone(), "reason" => code)
            .increment(1);
        self.step(vec![Event::Turn(TurnEvent::ModelChosen { model: to, reason })]).await?;
        self.settings = self.serving_settings();
        Ok(())
    }

    /// Notes that the model takes no tools. It is asked again immediately, without.
    async fn without_tools(&mut self) -> Result<(), TurnFailure> {
        let model = self.settings.model.clone();
        tracing::warn!(
            model,
            "the model does not support tools; it gets none for a day or until the next start; set tools = false \
             for it"
        );
        self.args.shared.live.models.refused_tools(&model, self.args.shared.ports.now());
        self.step_learnt(ModelNews { model, no_tools: Some(true), ..ModelNews::default() }, None).await
    }

    /// Journals what was learnt of a model's window, shares it with other conversations, and adds a note to the chat, if
    /// any.
    pub(super) async fn learn(
        &mut self,
        mut news: ModelNews,
        note: Option<Event>,
    ) -> Result<(), TurnFailure> {
        if news.window_tokens.is_some() {
            news.window_of = Some(self.configured(&news.model).window_tokens);
            let learnt = Learnt {
                window_tokens: news.window_tokens,
                window_of: news.window_of,
                no_tools: false,
                inferred: news.bounds.is_some(),
                cut: news.cut,
            };
            self.args.shared.live.models.learn(&news.model, learnt);
        }
        self.step_learnt(news, note).await
    }

    async fn step_learnt(&mut self, news: ModelNews, note: Option<Event>) -> Result<(), TurnFailure> {
        self.step(std::iter::once(Event::Turn(TurnEvent::ModelLearnt(news))).chain(note).collect()).await?;
        self.settings = self.serving_settings();
        Ok(())
    }

    /// Learns that the server read only `reported` tokens of a request of `tokens`. From now on no request is larger than
    /// the `largest` that it read whole. The chat is told once.
    pub(super) async fn learn_cut(
        &mut self,
        reported: u64,
        tokens: u64,
        largest: Option<u64>,
    ) -> Result<(), TurnFailure> {
        let model = self.settings.model.clone();
        let (is_known, note) = self.args.handle.read(|conversation| {
            let is_known = conversation.learnt.get(&model).is_some_and(|learnt| learnt.cut);
            (is_known, notice::note_of_cut(conversation, &self.settings))
        });
        let window_tokens = self.grown(&model).holding(largest.unwrap_or(reported));
        let window_tokens = Some(window_tokens).filter(|tokens| self.is_credible_window(*tokens));
        if is_known && window_tokens.is_none() {
            return Ok(());
        }
        telemetry::cut(&model, reported, tokens, window_tokens);
        self.learn(ModelNews { model, window_tokens, cut: true, ..ModelNews::default() }, note).await
    }

    /// The settings on a model of the chain, without what was learnt of it.
    fn candidate(&self, model: &str) -> Option<&Arc<AgentSettings>> {
        self.agent.chain().map(|candidate| &candidate.settings).find(|settings| settings.model == model)
    }

    /// The window of a model as configured, listed or assumed.
    pub(super) fn configured(&self, model: &str) -> WindowSize {
        self.candidate(model).map_or(self.settings.window, |settings| settings.window)
    }

    /// The window of a model, without what was learnt of it.
    fn grown(&self, model: &str) -> WindowSize {
        let grown = |settings: &Arc<AgentSettings>| {
            self.args.handle.read(|conversation| settings.grown(conversation))
        };
        self.candidate(model).map_or(self.settings.window, grown)
    }

    /// Journals what this conversation has missed: windows learnt elsewhere, a server that took a larger request than
    /// expected, tools that are offered again to a model that refused them, and windows that are configured differently
    /// now.
    async fn catch_up(&mut self) -> Result<(), TurnFailure> {
        let news = self.agent.chain().filter_map(|candidate| self.news_of(&candidate.settings));
        let events: Vec<_> = news.map(|news| Event::Turn(TurnEvent::ModelLearnt(news))).collect();
        if !events.is_empty() {
            self.step(events).await?;
            self.settings = self.serving_settings();
        }
        Ok(())
    }

    /// What this conversation does not know of a model yet.
    fn news_of(&self, settings: &AgentSettings) -> Option<ModelNews> {
        let (handle, models, now) =
            (&self.args.handle, &self.args.shared.live.models, self.args.shared.ports.now());
        let (model, window) = (settings.model.clone(), settings.window);
        let known = models.learnt(&model);
        let (here, bounds, grown, forgets) = handle.read(|conversation| {
            let forgets = conversation.measured_otherwise(&model, window.set_tokens());
            let bounds = conversation.bounds.get(&model).filter(|_| !forgets).copied().unwrap_or_default();
            let here = conversation.learnt.get(&model).cloned().unwrap_or_default();
            (here, bounds, settings.grown(conversation), forgets)
        });
        let (holding, learnt) = (grown.holding(bounds.taken), here.window(window.window_tokens));
        let raised = (here.inferred && !forgets && learnt.is_some_and(|of| of < holding)).then_some(holding);
        let adopted = known.window(window.window_tokens).filter(|_| learnt.is_none());
        let without = models.health(&model).takes_no_tools(now);
        let window_tokens = adopted.or(raised);
        let inferred = if raised.is_some() { here.inferred } else { known.inferred };
        let window_of = window_tokens.map(|_| window.window_tokens);
        if raised.is_some() {
            let news =
                Learnt { window_tokens: raised, window_of, no_tools: false, inferred: true, cut: false };
            models.learn(&model, news);
        }
        let news = ModelNews {
            model,
            window_tokens,
            window_of,
            no_tools: (without != here.no_tools).then_some(without),
            bounds: (inferred && window_tokens.is_some()).then_some(bounds),
            cut: known.cut && adopted.is_some(),
            forgets,
        };
        (news.window_tokens.is_some() || news.no_tools.is_some() || news.forgets).then_some(news)
    }

    /// Handles a request that was too large for the model. Its window is learnt if the server names it, and the request is
    /// shortened; after three tries a model with a larger window is asked.
    async fn too_large(
        &mut self,
        error: &ModelError,
        limit: Option<u64>,
        tokens: u64,
        tries: &mut Tries,
    ) -> Result<(), TurnFailure> {
        tries.overflows += 1;
        tries.all_overflows += 1;
        let (model, overflows) = (self.settings.model.clone(), tries.overflows);
        metrics::counter!("cairn_overflows_total", "model" => model.clone()).increment(1);
        tracing::warn!(
            model,
            error = error.in_brief(),
            tokens,
            overflows,
            "the model found the request too large; it is shortened and sent again"
        );
        if limit.is_none() {
            self.bound(&model, tokens, overflows == 1).await?;
        }
        if let Some(limit) = limit.filter(|limit| self.is_credible_window(*limit)) {
            let news = ModelNews { model: model.clone(), window_tokens: Some(limit), ..ModelNews::default() };
            self.learn(news, None).await?;
        } else if let Some(limit) = limit.filter(|limit| *limit < self.settings.window.window_tokens)
            && let Some(idx) = self.larger_model(tries)
        {
            // No conversation fits that window: nothing is dropped for it while another model has the room.
            tries.refused.insert(model.clone());
            let reason = format!("`{model}` takes {limit} tokens: too few beside prompt and tools");
            return self.switch(tries, idx, Reason { reason, code: error.code() }).await;
        }
        if overflows > OVERFLOW_RETRIES {
            tries.refused.insert(model.clone());
            let Some(idx) = self.larger_model(tries) else {
                return Err(failure::overflow(tries.all_overflows));
            };
            let reason = format!("`{model}` found the request too large {overflows} times");
            return self.switch(tries, idx, Reason { reason, code: error.code() }).await;
        }
        self.shrink(tokens).await
    }

    /// Makes room, so that the next request is smaller than the refused one of this size. For a model that stands in, only
    /// the request gets smaller.
    pub(super) async fn shrink(&mut self, tokens: u64) -> Result<(), TurnFailure> {
        let least = self.args.handle.read(|conversation| least_tokens(conversation, &self.settings));
        self.settings = Arc::new(narrowed(&self.settings, tokens, least + WORDS_MIN));
        if self.kept_by().model == self.settings.model {
            self.make_room(MakeRoom::Overflow).await?;
        }
        let model = self.settings.model.clone();
        metrics::counter!("cairn_overflow_retries_total", "model" => model).increment(1);
        Ok(())
    }

    /// Narrows the bounds of a window that the server does not name, after it refused a request of this size. When the
    /// bounds are close enough, the window is learnt from them.
    pub(super) async fn bound(&mut self, model: &str, tokens: u64, first: bool) -> Result<(), TurnFailure> {
        let known = self.args.handle.read(|conversation| conversation.bounds.get(model).copied());
        let bounds = known.unwrap_or_default().refusing(tokens, first);
        let window = self.grown(model);
        let window_tokens = bounds
            .usable_tokens()
            .map(|usable| window.holding(usable))
            .filter(|tokens| self.is_credible_window(*tokens));
        if let Some(window_tokens) = window_tokens {
            tracing::warn!(
                model,
                window_tokens,
                taken = bounds.taken,
                refused = bounds.refused,
                "the model's server gives no window size; Cairn estimates it from accepted and refused requests; \
                 set context_window of the model"
            );
        }
        let (model, bounds) = (model.to_owned(), Some(bounds));
        self.learn(ModelNews { model, window_tokens, bounds, ..ModelNews::default() }, None).await
    }

    /// Whether to believe a window: it is smaller than assumed, and leaves room for a conversation. Believing any other
    /// would silence the channel.
    fn is_credible_window(&self, limit: u64) -> bool {
        let mut settings = AgentSettings::clone(&self.serving_settings());
        if limit >= settings.window.window_tokens {
            return false;
        }
        settings.window = settings.window.narrowed(limit);
        self.args.handle.read(|conversation| {
            has_room(&conversation.correction(&settings.model), &settings, Place::of(conversation))
        })
    }

    /// The next model of the chain with a larger window than the current one.
    fn larger_model(&self, tries: &Tries) -> Option<usize> {
        let (chain, candidates, here) = (self.standings(&tries.refused), self.candidates(), self.position());
        let window = candidates[here].window.window_tokens;
        let later = (here + 1..chain.len())
            .filter(|idx| !chain[*idx].refused && candidates[*idx].window.window_tokens > window);
        let (well, cooling): (Vec<_>, Vec<_>) = later.partition(|idx| chain[*idx].cooling_until.is_none());
        well.into_iter().chain(cooling).next()
    }

    pub(super) fn outage_over(&mut self) {
        self.outage_wait.since = None;
        self.budget.note(None);
        if std::mem::take(&mut self.outage_wait.waits) {
            self.outage_wait.pace = Pace::up_to(self.args.shared.live.limits().patience_max);
            self.budget.restart();
            tracing::info!(channel = %self.args.handle.id, "the model answers again");
        }
    }

    /// Runs `work`. If it takes too long, people are told meanwhile.
    pub(super) async fn with_outage_note<T>(
        &mut self,
        work: impl Future<Output = T> + Send,
    ) -> Result<T, TurnFailure> {
        let outage_wait = &self.outage_wait;
        let due = outage_wait.since.filter(|_| !outage_wait.waits);
        let Some(since) = due else { return Ok(work.await) };
        tokio::pin!(work);
        tokio::select! {
            biased;
            done = &mut work => return Ok(done),
            () = tokio::time::sleep_until(since + self.args.shared.live.limits().tell_after) => {}
        }
        // While text is coming, there is nothing to tell.
        if self.args.handle.subscribers.text_so_far().is_empty() {
            self.begin_waiting(None).await?;
        }
        Ok(work.await)
    }

    /// Starts to wait, and tells people, unless they know. `failure`: the reason, for a local waiter.
    pub(super) async fn begin_waiting(&mut self, failure: Option<&TurnFailure>) -> Result<(), TurnFailure> {
        if std::mem::replace(&mut self.outage_wait.waits, true) {
            return Ok(());
        }
        if !self.outage_wait.is_chat {
            self.tell_waiter(failure);
            return Ok(());
        }
        self.budget.hold();
        if let Some(show) = &self.args.show {
            show.typing().pause().await;
        }
        if std::mem::replace(&mut self.outage_wait.told, true) {
            return Ok(());
        }
        let words = self.args.handle.say(Key::Outage);
        let note = self.args.handle.read(|conversation| {
            let open = conversation.open_turn.as_ref()?;
            Some(Event::Delivery(DeliveryEvent::Intended {
                id: note_id(&conversation.channel, &open.id),
                turn: open.id.clone(),
                seq: Seq(conversation.next_seq.0.saturating_sub(1)),
                note: Some(words),
                approval: None,
                reply_to: open.reply_to.clone(),
                edits: None,
                draft: false,
                files: Vec::new(),
            }))
        });
        metrics::counter!("cairn_outage_notes_total").increment(1);
        tracing::error!(channel = %self.args.handle.id,
            "no model answers; the chat is told, and its message is answered when one does; check the model's \
             server");
        self.step(note.into_iter().collect()).await
    }

    /// Tells a local waiter. The turn's time limit still applies.
    fn tell_waiter(&self, failure: Option<&TurnFailure>) {
        let why =
            failure.map_or_else(|| "the model does not answer".to_owned(), |failure| failure.message.clone());
        self.args.handle.subscribers.waits(&format!("{why}; waiting until it answers"));
        metrics::counter!("cairn_outage_notes_total").increment(1);
        tracing::warn!(channel = %self.args.handle.id,
            "no model answers; the turn waits until its time limit; check the model's server");
    }

    /// Waits before the next call, at least as long as the server `asked`. If the runtime stops first, the turn stays open
    /// and this never returns.
    pub(super) async fn pause(&mut self, error: &ModelError, asked: Option<Duration>) {
        let outage_wait = &mut self.outage_wait;
        let pause = outage_wait.pace.next().max(asked.unwrap_or_default().min(ASKED_MAX));
        tracing::debug!(channel = %self.args.handle.id, %error, ?pause, "the model still does not answer");
        if outage_wait.pace.wait(&self.args.shared.lifecycle, Some(pause)).await == Paced::Stopping {
            self.args.turn.yield_turn();
            std::future::pending::<()>().await;
        }
    }
}

/// The settings with a smaller window, so that the next request is smaller than the refused one of `tokens`. At least
/// `least` tokens stay usable, so that attachments survive.
fn narrowed(settings: &AgentSettings, tokens: u64, least: u64) -> AgentSettings {
    let mut settings = settings.clone();
    let usable = ((tokens as f64 * OVERFLOW_SHRINK) as u64).max(least);
    settings.window.window_tokens =
        (usable + settings.window.output_reserve_tokens).min(settings.window.window_tokens);
    settings
}
