-- Insights of a run.

-- statement: hardest
-- Per primary metric the case that most models fail; among equals the one with the worst mean, then the first.
WITH by_case AS (
    SELECT
        metric_id,
        case_id,
        count(*) AS n_models,
        count_if((value >= above) <> upper_is_good) AS n_failed,
        avg(CASE WHEN upper_is_good THEN value ELSE -value END) AS goodness
    FROM row_scores
    JOIN rows USING (row_id)
    JOIN targets USING (metric_id)
    WHERE value IS NOT NULL AND above IS NOT NULL AND metric_id IN (SELECT unnest(?))
    GROUP BY metric_id, case_id
),
most AS (SELECT metric_id, max(n_failed) AS n_failed FROM by_case GROUP BY metric_id HAVING max(n_failed) > 0),
hardest AS (
    SELECT
        metric_id,
        n_failed,
        count(*) AS n_alike,
        arg_min(case_id, (goodness, case_id)) AS case_id,
        arg_min(n_models, (goodness, case_id)) AS n_models
    FROM by_case
    JOIN most USING (metric_id, n_failed)
    GROUP BY metric_id, n_failed
)
SELECT metric_id, case_key, question, n_models, n_failed, n_alike, list(row_id ORDER BY row_id) AS row_ids
FROM hardest
JOIN cases USING (case_id)
JOIN rows USING (case_id)
JOIN row_scores USING (metric_id, row_id)
JOIN targets USING (metric_id)
WHERE (value >= above) <> upper_is_good
GROUP BY ALL
ORDER BY metric_id

-- statement: least_grounded
-- Per evaluator and model the sentence of an answer that the evaluator found least grounded in the retrieved context.
SELECT
    evaluator_id,
    model_id,
    arg_min(row_id, (sentence.value, row_id)) AS row_id,
    min(sentence.value) AS value,
    arg_min(sentence.sentence, (sentence.value, row_id)) AS sentence,
    arg_min(sentence.closest, (sentence.value, row_id)) AS closest
FROM (
    SELECT
        evaluator_id,
        row_id,
        from_json(
            json_extract(evidence, '$.data.least_grounded'),
            '{"sentence": "VARCHAR", "value": "DOUBLE", "closest": "VARCHAR"}'
        ) AS sentence
    FROM evidence
    WHERE contains(evidence, '"least_grounded"')
)
JOIN rows USING (row_id)
WHERE sentence.value IS NOT NULL
GROUP BY evaluator_id, model_id
ORDER BY evaluator_id, model_id

-- statement: paired
-- Differences between the leading model of a metric (in leaders) and each other model on the cases that both answered,
-- in sums over the families of copies and their influences (see Clusters in tasks/statistics/statistics.py).
WITH ours AS (
    SELECT metric_id, rows.model_id, case_id, value
    FROM row_scores
    JOIN rows USING (row_id)
    JOIN (SELECT DISTINCT metric_id FROM leaders) USING (metric_id)
    WHERE isfinite(value)
),
differences AS (
    SELECT
        metric_id,
        leaders.model_id AS leader,
        others.model_id,
        coalesce(family, -1 - case_id::BIGINT) AS cluster,
        led.value - others.value AS difference
    FROM leaders
    JOIN ours AS led USING (metric_id, model_id)
    JOIN ours AS others USING (metric_id, case_id)
    LEFT JOIN families USING (case_id)
    WHERE others.model_id <> leaders.model_id
),
by_cluster AS (
    SELECT
        metric_id, leader, model_id, cluster,
        count(*)::DOUBLE AS n, sum(difference) AS total, min(difference) AS least, max(difference) AS most
    FROM differences
    GROUP BY metric_id, leader, model_id, cluster
),
together AS (
    SELECT
        metric_id,
        leader,
        model_id,
        sum(n)::BIGINT AS n_all,
        count(*) AS clusters,
        sum(total) / sum(n) AS mean,
        sum(n * n) AS sizes,
        min(least) = max(most) AS constant
    FROM by_cluster
    GROUP BY metric_id, leader, model_id
)
SELECT
    metric_id,
    leader,
    model_id,
    any_value(n_all) AS n,
    any_value(clusters) AS clusters,
    any_value(mean) AS mean,
    any_value(sizes) AS sizes,
    sum(pow((total - n * mean) * n_all / nullif(n_all - n, 0), 2)) AS squares,
    sum(pow((total - n * mean) * n_all / nullif(n_all - n, 0), 3)) AS cubes,
    any_value(constant) AS constant
FROM by_cluster
JOIN together USING (metric_id, leader, model_id)
GROUP BY metric_id, leader, model_id

-- statement: usage
-- What answers took and cost by model. Time of the rows that the host answered; a negative cost counts as 0.
SELECT
    model_id,
    count(duration_s) FILTER (error IS NULL) AS n_timed,
    avg(duration_s) FILTER (error IS NULL) AS duration_s,
    count(cost_usd) AS n_costed,
    avg(greatest(cost_usd, 0)) FILTER (cost_usd IS NOT NULL) AS cost_usd,
    sum(greatest(cost_usd, 0)) FILTER (cost_usd IS NOT NULL) AS total_usd
FROM rows
GROUP BY model_id
ORDER BY model_id

-- statement: sound_rows
-- Rows that a metric with a threshold judged which the policy counts: whether they pass all of them. Likeness is left out:
-- of right answers too some are unlike what is expected.
CREATE OR REPLACE TEMP TABLE sound_rows AS
SELECT row_id, model_id, case_id, coalesce(family, -1 - case_id::BIGINT) AS cluster, sound
FROM (
    SELECT row_id, bool_and((value >= above) = upper_is_good) AS sound
    FROM row_scores
    JOIN targets USING (metric_id)
    JOIN rules USING (metric_id)
    WHERE value IS NOT NULL AND above IS NOT NULL AND role <> 'information' AND proof <> 'likeness'
    GROUP BY row_id
)
JOIN rows USING (row_id)
LEFT JOIN families USING (case_id)

-- statement: standings
-- Answers and sound answers by model, with its problems of high severity.
SELECT model_id, n, n_sound, n_cases, coalesce(blocking, 0) AS blocking
FROM (
    SELECT model_id, count(*) AS n, count_if(sound)::BIGINT AS n_sound, count(DISTINCT cluster) AS n_cases
    FROM sound_rows
    GROUP BY model_id
)
LEFT JOIN (
    SELECT model_id, count(*) AS blocking
    FROM problems
    WHERE severity = 'high' AND NOT instrument
    GROUP BY model_id
) USING (model_id)
ORDER BY model_id

-- statement: sound_pairs
-- Differences between models on the cases that both answered, 1 for sound and 0 for not, in sums over the families of
-- copies and their influences (see Clusters in tasks/statistics/statistics.py).
WITH by_cluster AS (
    SELECT
        led.model_id AS leader,
        others.model_id,
        led.cluster,
        count(*)::DOUBLE AS n,
        sum(led.sound::INTEGER - others.sound::INTEGER)::DOUBLE AS total,
        min(led.sound::INTEGER - others.sound::INTEGER) AS least,
        max(led.sound::INTEGER - others.sound::INTEGER) AS most
    FROM sound_rows AS led
    JOIN sound_rows AS others USING (case_id)
    WHERE led.model_id IN (SELECT unnest($leaders)) AND others.model_id <> led.model_id
    GROUP BY ALL
),
together AS (
    SELECT
        leader,
        model_id,
        sum(n)::BIGINT AS n_all,
        count(*) AS clusters,
        sum(total) / sum(n) AS mean,
        sum(n * n) AS sizes,
        min(least) = max(most) AS constant
    FROM by_cluster
    GROUP BY leader, model_id
)
SELECT
    leader,
    model_id,
    any_value(n_all) AS n,
    any_value(clusters) AS clusters,
    any_value(mean) AS mean,
    any_value(sizes) AS sizes,
    sum(pow((total - n * mean) * n_all / nullif(n_all - n, 0), 2)) AS squares,
    sum(pow((total - n * mean) * n_all / nullif(n_all - n, 0), 3)) AS cubes,
    any_value(constant) AS constant
FROM by_cluster
JOIN together USING (leader, model_id)
GROUP BY leader, model_id

-- statement: unsound
SELECT row_id FROM sound_rows WHERE model_id = $model AND NOT sound ORDER BY row_id LIMIT $most

-- statement: spending
-- What answers cost and took by model: of rows that the host answered. A negative cost counts as 0.
SELECT
    model_id,
    count(duration_s) AS duration_s_n,
    avg(duration_s) AS duration_s,
    stddev_samp(duration_s) AS duration_s_std,
    skewness(duration_s) AS duration_s_skewness,
    quantile_cont(duration_s, 0.5) AS duration_s_p50,
    quantile_cont(duration_s, 0.95) AS duration_s_p95,
    count(cost_usd) AS cost_usd_n,
    avg(cost_usd) AS cost_usd,
    stddev_samp(cost_usd) AS cost_usd_std,
    skewness(cost_usd) AS cost_usd_skewness,
    quantile_cont(cost_usd, 0.5) AS cost_usd_p50,
    quantile_cont(cost_usd, 0.95) AS cost_usd_p95
FROM (
    SELECT
        model_id,
        least(duration_s, 1e12) AS duration_s, -- a broken clock's number would overflow the moments
        CASE WHEN cost_usd IS NOT NULL THEN least(greatest(cost_usd, 0), 1e12) END AS cost_usd
    FROM rows
    WHERE error IS NULL
)
GROUP BY model_id
ORDER BY model_id

-- statement: most_spent
-- The rows of a model that took or cost most.
SELECT row_id
FROM rows
WHERE model_id = $model AND error IS NULL AND {what} IS NOT NULL
ORDER BY {what} DESC, row_id
LIMIT $most

-- statement: failed_by_all
-- Cases of which several models answered and all fail one metric that the policy counts; of these metrics the first.
WITH failed AS (
    SELECT
        case_id,
        max(n_models) AS n_models,
        list(metric_id ORDER BY metric_id) AS metric_ids,
        arg_min(row_ids, metric_id) AS row_ids
    FROM (
        SELECT case_id, metric_id, count(*) AS n_models, list(row_id ORDER BY row_id) AS row_ids
        FROM row_scores
        JOIN rows USING (row_id)
        JOIN targets USING (metric_id)
        JOIN rules USING (metric_id)
        WHERE value IS NOT NULL AND above IS NOT NULL AND role <> 'information' AND proof <> 'likeness'
        GROUP BY case_id, metric_id
        HAVING count(*) > 1 AND bool_and((value >= above) <> upper_is_good)
    )
    GROUP BY case_id
    ORDER BY len(metric_ids) DESC, case_id
    LIMIT $most
),
answered AS (
    SELECT case_id, list(actual_answer[:2000] ORDER BY row_id) AS answers
    FROM (SELECT case_id, unnest(row_ids) AS row_id FROM failed)
    JOIN (SELECT row_id, actual_answer FROM rows) USING (row_id)
    GROUP BY case_id
)
SELECT case_key, question, expected_answers, n_models, metric_ids, row_ids, answers
FROM failed
JOIN answered USING (case_id)
JOIN cases USING (case_id)
ORDER BY len(metric_ids) DESC, case_id

-- statement: passed_by_all
-- Cases of which every answer is sound, among those that were judged, with some of their rows.
SELECT
    count_if(easy)::BIGINT AS n_easy,
    count(*) AS n_cases,
    coalesce(min(row_id, 50) FILTER (easy), []) AS row_ids
FROM (SELECT case_id, bool_and(sound) AS easy, min(row_id) AS row_id FROM sound_rows GROUP BY case_id)

-- statement: verdict_pairs
-- Verdicts of two metrics on the same rows, of every {step}th row: on how many they agree, and the rows on which they do not.
WITH verdicts AS (
    SELECT metric_id, row_id, (value >= above) = upper_is_good AS passes, value
    FROM row_scores
    JOIN targets USING (metric_id)
    WHERE value IS NOT NULL AND above IS NOT NULL AND metric_id IN (SELECT unnest($metrics)) AND row_id % {step} = 0
)
SELECT
    a.metric_id AS one,
    b.metric_id AS other,
    count(*) AS n,
    count_if(a.passes)::BIGINT AS n_one,
    count_if(b.passes)::BIGINT AS n_other,
    count_if(a.passes AND NOT b.passes)::BIGINT AS n_only_one,
    count_if(b.passes AND NOT a.passes)::BIGINT AS n_only_other,
    nullif(corr(a.value, b.value) FILTER (isfinite(a.value) AND isfinite(b.value)), 'nan'::DOUBLE) AS correlation,
    coalesce(min(a.row_id, 50) FILTER (a.passes AND NOT b.passes), []) AS rows_only_one,
    coalesce(min(a.row_id, 50) FILTER (b.passes AND NOT a.passes), []) AS rows_only_other
FROM verdicts AS a
JOIN verdicts AS b ON a.row_id = b.row_id AND a.metric_id < b.metric_id
GROUP BY one, other
ORDER BY one, other

-- statement: same_questions
-- Questions that several cases ask of the same documents and contexts, and whether they expect the same: the first $most
-- of either kind, with how many there are of it and of how many cases. Most questions stand alone: hashes, which take
-- little memory, tell which cases are worth a look.
WITH seen AS (
    SELECT case_id, hash(min(context), max(context)) AS seen
    FROM (SELECT row_id, hash(retrieved_context) AS context FROM digests WHERE retrieved_context IS NOT NULL)
    RIGHT JOIN rows USING (row_id)
    GROUP BY case_id
),
hashed AS MATERIALIZED (
    SELECT
        case_id,
        hash(lower(trim(regexp_replace(question, '\s+', ' ', 'g'))), list_sort(expected_documents), seen) AS asked
    FROM cases
    JOIN seen USING (case_id)
    ANTI JOIN trials USING (case_id)
    WHERE question <> ''
),
candidates AS MATERIALIZED (
    SELECT case_id
    FROM hashed
    WHERE asked IN (SELECT asked FROM hashed GROUP BY asked HAVING count(*) > 1)
),
contexts AS (
    SELECT case_id, list(digests.retrieved_context ORDER BY row_id) AS contexts, min(row_id) AS row_id
    FROM digests
    JOIN rows USING (row_id)
    WHERE case_id IN (FROM candidates)
    GROUP BY case_id
),
asked AS (
    SELECT
        lower(trim(regexp_replace(question, '\s+', ' ', 'g'))) AS asked,
        list_sort(expected_documents) AS documents,
        [context FOR context IN list_distinct(contexts) IF context IS NOT NULL] AS seen,
        list_sort([lower(trim(answer)) FOR answer IN expected_answers]) AS expected,
        coalesce(condition, '') AS condition,
        case_key,
        question,
        row_id
    FROM cases
    JOIN contexts USING (case_id)
    ANTI JOIN trials USING (case_id)
),
repeated AS (
    SELECT
        arg_min(question, row_id) AS question,
        count(*) AS n,
        count(DISTINCT (expected, condition)) > 1 AND bool_and(len(expected) > 0 OR condition <> '') AS contradictory,
        min(row_id, 20) AS row_ids
    FROM asked
    GROUP BY asked, documents, seen
    HAVING count(*) > 1
)
SELECT
    *,
    count(*) OVER (PARTITION BY contradictory) AS n_questions,
    (sum(n) OVER (PARTITION BY contradictory))::BIGINT AS n_cases
FROM repeated
QUALIFY row_number() OVER (PARTITION BY contradictory ORDER BY n DESC, row_ids[1]) <= $most
ORDER BY contradictory DESC, n DESC, row_ids[1]

-- statement: failing_turns
-- Per metric and model the conversations of several turns some of which fail: how many, from which turn on, and how many
-- of them fail from then on to their end. rates is the share that fails by turn, with how many there were.
WITH judged AS (
    FROM turn_means
    WHERE fails IS NOT NULL AND metric_id IN (SELECT unnest($metrics))
),
firsts AS (
    SELECT
        metric_id, model_id, conversation_id,
        min(turn) FILTER (fails) AS first,
        coalesce(max(turn) FILTER (NOT fails), 0) AS last_good
    FROM judged
    GROUP BY metric_id, model_id, conversation_id
),
by_turn AS (
    SELECT metric_id, model_id, turn, count_if(fails) AS failed, count(*) AS n FROM judged GROUP BY metric_id, model_id, turn
)
SELECT
    metric_id,
    model_id,
    count(*) AS n_conversations,
    count(first) AS n_failed,
    count_if(first > last_good) AS n_to_end,
    quantile_disc(first, 0.5) AS turn,
    (
        SELECT list([turn, failed, n] ORDER BY turn) FROM by_turn
        WHERE by_turn.metric_id = firsts.metric_id AND by_turn.model_id = firsts.model_id
    ) AS by_turn,
    list(conversation_id ORDER BY first, conversation_id) FILTER (first IS NOT NULL) AS row_ids
FROM firsts
GROUP BY metric_id, model_id
HAVING count(first) > 0
ORDER BY n_failed / n_conversations DESC, metric_id, model_id
LIMIT $most
