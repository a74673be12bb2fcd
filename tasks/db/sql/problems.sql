-- Problems of a run. Names in braces are filled in by tasks/analyse/findings.

-- statement: failing_rows
-- The rows below (or above) the threshold for the metrics and models in wanted, worst first.
SELECT
    metric_id,
    model_id,
    count(*) AS n_failed,
    arg_min(row_id, (CASE WHEN upper_is_good THEN value ELSE -value END, row_id), {most}) AS row_ids
FROM row_scores
JOIN rows USING (row_id)
JOIN wanted USING (metric_id, model_id)
JOIN targets USING (metric_id)
WHERE (value >= above) <> upper_is_good
GROUP BY metric_id, model_id

-- statement: flags
-- What evaluators flagged of single rows.
WITH flagged AS (
    SELECT
        evaluator_id,
        row_id,
        unnest(from_json(flags, '[{{"type": "VARCHAR", "severity": "VARCHAR", "message": "VARCHAR"}}]')) AS flag
    FROM evidence
    WHERE flags IS NOT NULL
)
SELECT
    evaluator_id,
    model_id,
    flag.type AS type,
    flag.severity AS severity,
    count(DISTINCT row_id) AS n,
    mode(flag.message) AS message,
    count(DISTINCT flag.message) AS n_messages,
    min(row_id, {most}) AS row_ids
FROM flagged
JOIN rows USING (row_id)
GROUP BY ALL
ORDER BY evaluator_id, model_id, type, severity

-- statement: flip_totals
-- Evaluators and models with more flipped cases than are told one by one.
SELECT
    evaluator_id,
    model_id,
    count(DISTINCT perturbed_case_id) AS n_cases,
    count(DISTINCT perturbed_case_id) FILTER (direction = 'passed_to_failed') AS n_fell,
    count(DISTINCT perturbed_case_id) FILTER (direction = 'failed_to_passed') AS n_rose,
    min(perturbed_row_id, {most}) AS row_ids
FROM (SELECT DISTINCT metrics.evaluator_id, flips.* EXCLUDE (metric_id) FROM flips JOIN metrics USING (metric_id))
GROUP BY evaluator_id, model_id
HAVING count(DISTINCT (original_case_id, perturbed_case_id)) > {listed}
ORDER BY evaluator_id, model_id

-- statement: flipped_cases
-- Each perturbed case that flipped for a model on some metric of an evaluator, the flips of one case in one line.
-- place counts them within an evaluator and model, those that fell first.
WITH flipped AS (
    SELECT
        evaluator_id,
        model_id,
        original_case_id,
        perturbed_case_id,
        original_row_id,
        perturbed_row_id,
        any_value(perturbation) AS perturbation,
        bool_or(direction = 'passed_to_failed') AS fell,
        list(
            {{'metric_id': metric_id, 'from': original_value, 'to': perturbed_value, 'direction': direction}}
            ORDER BY is_primary DESC, metric_id
        ) AS metrics
    FROM flips
    JOIN metrics USING (metric_id)
    GROUP BY ALL
),
placed AS (
    SELECT
        *,
        row_number() OVER (
            PARTITION BY evaluator_id, model_id ORDER BY fell DESC, perturbed_case_id, original_case_id
        ) AS place,
        count(*) OVER (PARTITION BY evaluator_id, model_id) AS n_flipped
    FROM flipped
)
SELECT placed.*, originals.question AS original_question, perturbed.question AS perturbed_question
FROM placed
JOIN cases AS originals ON originals.case_id = original_case_id
JOIN cases AS perturbed ON perturbed.case_id = perturbed_case_id
WHERE place <= {listed}
ORDER BY evaluator_id, model_id, place

-- statement: host_errors
SELECT
    model_id,
    count(*) AS n,
    (SELECT count(*) FROM rows AS every WHERE every.model_id = rows.model_id) AS n_rows,
    mode(error) AS message,
    min(row_id, {most}) AS row_ids
FROM rows
WHERE error IS NOT NULL
GROUP BY model_id
ORDER BY model_id

-- statement: missing_input
-- By model, how many rows lack one input; {field} is a column of digests. Rows that the host failed on are left out.
SELECT
    model_id,
    count(*) AS n_rows,
    count_if(absent) AS n,
    count(DISTINCT case_id) FILTER (absent) AS n_cases,
    coalesce(min(row_id, {most}) FILTER (absent), []) AS row_ids
FROM (
    SELECT row_id, model_id, case_id, digests.{field} IS NULL AS absent
    FROM rows
    JOIN digests USING (row_id)
    WHERE error IS NULL
)
GROUP BY model_id
ORDER BY model_id

-- statement: negative_costs
SELECT model_id, count(*) AS n, min(cost_usd) AS lowest, min(row_id, {most}) AS row_ids
FROM rows
WHERE cost_usd < 0
GROUP BY model_id
ORDER BY model_id

-- statement: retrieval
-- Rows whose retrieved context fails a pass/fail check although the answer passes it.
WITH boards AS (
    SELECT
        evaluator_id,
        min(metric_id) FILTER (metric LIKE '%retrieval%') AS retrieval,
        min(metric_id) FILTER (metric LIKE '%generation%') AS generation
    FROM metrics
    JOIN evaluators USING (evaluator_id)
    WHERE leaderboard = 'bool'
    GROUP BY evaluator_id
)
SELECT evaluator_id, retrieval AS metric_id, model_id, count(*) AS n, min(rows.row_id, {most}) AS row_ids
FROM boards
JOIN row_scores AS contexts ON contexts.metric_id = retrieval AND contexts.value > 0
JOIN row_scores AS answers ON answers.metric_id = generation AND answers.row_id = contexts.row_id AND answers.value = 0
JOIN rows ON rows.row_id = contexts.row_id
GROUP BY ALL
ORDER BY evaluator_id, model_id

-- statement: unscored
-- Rows that could not be measured, by evaluator, reason and model, with the commonest message of the instrument.
WITH lost AS (
    SELECT DISTINCT evaluator_id, row_id, reason
    FROM row_scores
    JOIN metrics USING (metric_id)
    WHERE status = 'unscored'
),
messages AS (
    SELECT evaluator_id, row_id, any_value(error) AS error
    FROM evidence
    WHERE error IS NOT NULL
    GROUP BY evaluator_id, row_id
)
SELECT
    lost.evaluator_id,
    coalesce(reason, 'unknown') AS reason,
    model_id,
    count(*) AS n,
    mode(messages.error) AS message,
    min(lost.row_id, {most}) AS row_ids
FROM lost
JOIN rows USING (row_id)
LEFT JOIN messages ON messages.evaluator_id = lost.evaluator_id AND messages.row_id = lost.row_id
GROUP BY ALL
ORDER BY lost.evaluator_id, reason, model_id
