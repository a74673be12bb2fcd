-- The questions of the verdict: which rows are good, and what keeps a question from being decided.

-- statement: row_verdicts
-- Whether a row is good by the best metric that was made for it, per question that rows decide. Exact metrics come first,
-- and all of them must pass; of those that err a judge comes before a rule, and one of them decides.
CREATE OR REPLACE TEMP TABLE row_verdicts AS
WITH said AS (
    SELECT
        question,
        row_id,
        metric_id,
        (value >= above) = upper_is_good AS good,
        CASE WHEN proof = 'exact' THEN 0 WHEN judged THEN 1 + metric_id ELSE 100000 + metric_id END AS place
    FROM row_scores
    JOIN targets USING (metric_id)
    JOIN rules USING (metric_id)
    WHERE
        value IS NOT NULL AND above IS NOT NULL AND role <> 'information' AND use <> 'corrected'
        AND proof IN ('exact', 'estimate') AND list_contains($questions, question)
)
SELECT
    question,
    row_id,
    place,
    bool_and(good) AS good,
    coalesce(min(metric_id) FILTER (NOT good), min(metric_id)) AS metric_id -- one that fails it, if any
FROM (SELECT *, min(place) OVER (PARTITION BY question, row_id) AS best FROM said)
WHERE place = best
GROUP BY question, row_id, place

-- statement: asked_rows
-- The rows that a question can be asked of: with something to hold the answer against, or already decided. A case without
-- copies is a family of its own. What stands in lists and texts is told before the joins, which hold their rows in memory.
CREATE OR REPLACE TEMP TABLE asked_rows AS
SELECT
    answers.row_id,
    answers.model_id,
    coalesce(families.family, -1 - case_id::BIGINT) AS family,
    decided.metric_id,
    decided.place,
    decided.good,
    labels.good AS label
FROM (SELECT row_id, model_id, case_id, len(retrieved_context) > 0 AS retrieved FROM rows WHERE error IS NULL) AS answers
JOIN (SELECT case_id, len(expected_answers) > 0 OR coalesce(condition, '') <> '' AS expected FROM cases) USING (case_id)
LEFT JOIN families USING (case_id)
LEFT JOIN (FROM row_verdicts WHERE question = $question) AS decided USING (row_id)
LEFT JOIN (FROM question_labels WHERE question = $question) AS labels USING (row_id)
WHERE
    decided.place IS NOT NULL
    OR model_id IN (SELECT model_id FROM question_labels JOIN rows USING (row_id) WHERE question = $question)
    OR CASE $question WHEN 'right' THEN expected WHEN 'grounded' THEN retrieved END

-- statement: asked_models
-- By model how many rows the question is asked of, of how many independent cases decided ones are, and how many have labels.
-- Families are counted in two steps, since DISTINCT within an aggregate cannot go to disk.
WITH counted AS (
    SELECT model_id, family, count(*) AS n, count(place) AS decided, count(label) AS labelled
    FROM asked_rows
    GROUP BY model_id, family
)
SELECT model_id, sum(n)::BIGINT AS n_asked, count(*) FILTER (decided > 0) AS n_cases, sum(labelled)::BIGINT AS n_labels
FROM counted
GROUP BY model_id
ORDER BY model_id

-- statement: asked_strata
-- A model's decided rows by what decides them, with the number that each metric decides.
WITH counted AS (
    SELECT place, family, count(*) AS n, count(*) FILTER (good) AS n_good
    FROM asked_rows
    WHERE model_id = $model AND place IS NOT NULL
    GROUP BY place, family
),
metrics AS (
    SELECT place, histogram(metric_id) AS metrics
    FROM asked_rows
    WHERE model_id = $model AND place IS NOT NULL
    GROUP BY place
)
SELECT place, sum(n)::BIGINT AS n, sum(n_good)::BIGINT AS n_good, count(*) AS n_families, any_value(metrics) AS metrics
FROM counted
JOIN metrics USING (place)
GROUP BY place
ORDER BY place

-- statement: stratum_rows
SELECT good::DOUBLE AS good, family
FROM asked_rows
WHERE model_id = $model AND place = $place
ORDER BY row_id

-- statement: labelled_rows
-- A model's rows with what people said of them; `part` is -1 where no metric decides.
SELECT coalesce(label, 'nan'::DOUBLE) AS label, coalesce(good::INTEGER, -1) AS part, family
FROM asked_rows
WHERE model_id = $model
ORDER BY row_id

-- statement: labelled_bad
-- Answers that people do not call good, by question and model.
SELECT question, model_id, list(row_id ORDER BY good, row_id) AS row_ids
FROM question_labels JOIN rows USING (row_id)
WHERE good <= 0.5
GROUP BY question, model_id

-- statement: empty_answers
-- Answers that are empty or say only that there is none, by model. Those that are expected to be so are left out, and those
-- that end with a call of a tool.
WITH answered AS (
    FROM rows WHERE error IS NULL AND predicted_annotations IS NULL
),
empty AS (
    SELECT model_id, row_id, case_id, lower(trim(coalesce(actual_answer, ''))) AS said
    FROM answered
    LEFT JOIN (SELECT row_id, messages FROM turns) AS talks USING (row_id)
    WHERE
        regexp_full_match(coalesce(actual_answer, ''), '[ \t\r\n]*(nan|none|null|<na>)?[ \t\r\n]*', 'i')
        AND coalesce(json_array_length(messages, '$[#-1].tool_calls'), 0) = 0
)
SELECT model_id, any_value(n_rows) AS n_rows, list(row_id ORDER BY row_id) AS row_ids
FROM empty
JOIN cases USING (case_id)
JOIN (SELECT model_id, count(*) AS n_rows FROM answered GROUP BY model_id) USING (model_id)
WHERE NOT list_contains(list_transform(expected_answers, lambda text: lower(trim(text))), said)
GROUP BY model_id
ORDER BY model_id

-- statement: measured
-- Per question, whether something that can block measured it, whether something that can show that answers are good did,
-- and whether somebody asked for such a metric by name.
SELECT
    question,
    coalesce(bool_or(n_scored > 0), false) AS measured,
    coalesce(bool_or(n_scored > 0 AND (proof NOT IN ('none', 'likeness') OR NOT list_contains($by_rows, question))), false) AS provable,
    bool_or(named) AS named
FROM rules
JOIN metrics USING (metric_id)
LEFT JOIN aggregates USING (metric_id)
WHERE role <> 'information' AND metrics.threshold IS NOT NULL
GROUP BY question

-- statement: failing
-- Problems of models of some severities, by the question that they bear on.
SELECT coalesce(nullif(question, ''), 'right') AS question, severity, description
FROM problems
WHERE NOT instrument AND list_contains(?, severity)
ORDER BY problem_id

-- statement: passing
-- What was measured of a question and can block, the model that is worst off first.
SELECT evaluators.evaluator, metrics.name, model_key, role, value, aggregates.threshold, n_scored
FROM aggregates
JOIN rules USING (metric_id)
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
WHERE question = $question AND role <> 'information' AND n_scored > 0 AND aggregates.threshold IS NOT NULL
ORDER BY role <> 'must', CASE WHEN higher_is_better THEN value ELSE -value END, metric_id, model_id

-- statement: unlooked
-- What the search for personal data leaves out and sets aside: whether it ran without a model for names, and the rows in
-- which it found what may be told.
SELECT
    coalesce(bool_or(evaluator = 'pii_leakage' AND (params ->> '$.ner_model') IS NULL), false) AS without_names,
    (
        SELECT count(DISTINCT row_id)
        FROM evidence JOIN evaluators USING (evaluator_id)
        WHERE family = 'privacy' AND contains(evidence, '"set_aside"')
    ) AS set_aside
FROM evaluators
WHERE error IS NULL

-- statement: deciding
-- What is known of the metrics that decide rows.
SELECT
    rules.metric_id, rules.question, role, proof, right_that_pass, wrong_that_fail, named, judged,
    metrics.threshold, is_share, higher_is_better, evaluators.evaluator,
    coalesce(certificates.state, 'none') AS state, recall_pass, recall_fail, accuracy, coalesce(n_labels, 0) AS n_labels
FROM rules
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
LEFT JOIN certificates USING (metric_id)
WHERE proof IN ('exact', 'estimate') AND role <> 'information'

-- statement: stopped
-- Metrics whose rows decide a question and that stopped being judged early: what the last look decided of each model.
SELECT
    rules.question, stopping.model_id, stopping.decision, proof, role, right_that_pass, wrong_that_fail,
    metrics.threshold, is_share, higher_is_better, evaluators.evaluator, n_scored, n_pass, pass_share, pass_low, pass_high
FROM stopping
JOIN rules USING (metric_id)
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN aggregates ON aggregates.metric_id = rules.metric_id AND aggregates.model_id = stopping.model_id
WHERE
    stopping.question = 'passes' AND proof IN ('exact', 'estimate') AND role = 'should' AND ci_method = $always_valid
    AND wave = (SELECT max(wave) FROM stopping)
ORDER BY stopping.metric_id

-- statement: bad_rows
-- Per question and model, the first $most rows that what decides them fails, and how many each metric fails; those of must
-- metrics are apart.
SELECT question, model_id, min_by(row_id, {value: value, row_id: row_id}, $most) AS row_ids, histogram(metric_id) AS metrics
FROM (
    SELECT
        row_verdicts.question, rows.model_id, row_id, metric_id,
        CASE WHEN higher_is_better THEN value ELSE -value END AS value
    FROM row_verdicts
    JOIN rows USING (row_id)
    JOIN rules USING (metric_id)
    JOIN metrics USING (metric_id)
    JOIN row_scores USING (metric_id, row_id)
    WHERE NOT good AND role <> 'must'
)
GROUP BY question, model_id
