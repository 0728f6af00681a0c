//! What models add to the order of search results: the vector of the question, and the best results compared with the question
//! again. Each has a time limit; without them words decide.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cairn_types::ports::{Hit, Query, Reranker, StoreError};

use crate::index::search::SearchPlace;
use crate::store::Store;
use crate::views::vectors::quantized;

/// Longest that a search waits for the vector of its question.
const QUESTION_LIMIT: Duration = Duration::from_millis(500);

/// The best results that are compared with the question again.
const RERANKED: usize = 50;

/// Bytes of a result before its first marked word that are compared, too.
const BEFORE_MARK: usize = 300;

/// Most bytes of a result that are compared.
const COMPARED_MAX: usize = 1_200;

impl Store {
    /// One page of what a search finds, in the order of all models that are configured.
    pub(crate) async fn ranked(
        &self,
        query: Query,
        after: Option<SearchPlace>,
    ) -> Result<(Vec<Hit>, Option<SearchPlace>), StoreError> {
        let skipped = after.map_or(Some(0), SearchPlace::among_reranked);
        let (Some(reranker), Some(skipped)) = (&self.inner.options.reranker, skipped) else {
            return self.in_order(query, after).await;
        };
        let (limit, question) = (query.limit, query.text.clone());
        let all = Query { limit: limit.max(RERANKED), ..query };
        let (mut hits, next) = self.in_order(all, None).await?;
        self.rerank(reranker.as_ref(), question, &mut hits).await;
        let end = skipped.saturating_add(limit);
        let next = if end < hits.len() { Some(SearchPlace::reranked(end)) } else { next };
        Ok((hits.into_iter().skip(skipped).take(limit).collect(), next))
    }

    /// Orders the best by how well they answer the question; they stay as they are where the model does not say.
    async fn rerank(&self, reranker: &dyn Reranker, question: String, hits: &mut [Hit]) {
        let n = hits.len().min(RERANKED);
        let best = &mut hits[..n];
        if best.len() < 2 {
            return;
        }
        match reranker.rerank(question, best.iter().map(compared).collect()).await {
            Ok(scores) => {
                self.inner.ranking.rerank_fails.store(false, Ordering::Release);
                let mut ordered: Vec<(f64, Hit)> = scores.into_iter().zip(best.iter().cloned()).collect();
                ordered.sort_by(|(a, _), (b, _)| b.total_cmp(a));
                for (place, (_, hit)) in best.iter_mut().zip(ordered) {
                    *place = hit;
                }
            }
            Err(why) => {
                metrics::counter!("cairn_rerank_failures_total", "outcome" => why.outcome()).increment(1);
                if !self.inner.ranking.rerank_fails.swap(true, Ordering::AcqRel) {
                    tracing::warn!(%why, "search results are not reranked for now; they keep their order");
                }
            }
        }
    }

    /// The vector of a question, made on a thread of its own; none without a model, or when it takes too long.
    pub(crate) async fn vector_of(&self, text: &str) -> Option<Vec<i8>> {
        let embedder = Arc::clone(self.inner.options.embedder.as_ref()?);
        let made = async {
            let permit = self.inner.ranking.questions.clone().acquire_owned().await.ok()?;
            let text = text.to_owned();
            let make = move || {
                let made = embedder.embed(&[&text]);
                drop(permit);
                made
            };
            tokio::task::spawn_blocking(make).await.ok()
        };
        let why = match tokio::time::timeout(QUESTION_LIMIT, made).await {
            Ok(Some(Ok(made))) => {
                self.inner.ranking.vectors_fail.store(false, Ordering::Release);
                return made.first().map(|vector| quantized(vector));
            }
            Ok(Some(Err(why))) => why.to_string(),
            Ok(None) => "the store closes".to_owned(),
            Err(_) => "it took too long".to_owned(),
        };
        metrics::counter!("cairn_embedding_failures_total").increment(1);
        if !self.inner.ranking.vectors_fail.swap(true, Ordering::AcqRel) {
            tracing::warn!(%why, "a question got no vector; searches use only words for now");
        }
        None
    }
}

/// The part of a result that is compared: around the words that were found, with who said it.
fn compared(hit: &Hit) -> String {
    let first = hit.marks.first().map_or(0, |(from, _)| from.saturating_sub(BEFORE_MARK));
    let text = &hit.text[hit.text.floor_char_boundary(first)..];
    let text = &text[..text.floor_char_boundary(COMPARED_MAX)];
    match hit.author.as_ref() {
        Some(author) => format!("{}: {text}", author.name),
        None => text.to_owned(),
    }
}
