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
-- summed within families of copies, then over them.
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
)
SELECT
    metric_id,
    leader,
    model_id,
    sum(n)::BIGINT AS n,
    count(*) AS clusters,
    sum(total) AS total,
    sum(total * total) AS total_total,
    sum(n * total) AS n_total,
    sum(n * n)::DOUBLE AS n_n,
    min(least) = max(most) AS constant
FROM (
    SELECT
        metric_id, leader, model_id, cluster,
        count(*) AS n, sum(difference) AS total, min(difference) AS least, max(difference) AS most
    FROM differences
    GROUP BY metric_id, leader, model_id, cluster
)
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
