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

-- statement: drawn_rows
-- Questions of rows, and the must and should metrics of quality that they fail.
SELECT
    row_id,
    any_value(question) AS question,
    coalesce(
        list(metric_id ORDER BY metric_id) FILTER (metric_id IN ({quality}) AND (value >= above) <> upper_is_good), []
    ) AS metrics
FROM rows
JOIN cases USING (case_id)
LEFT JOIN row_scores USING (row_id)
LEFT JOIN targets USING (metric_id)
WHERE row_id IN (SELECT unnest($1::UINTEGER[]))
GROUP BY row_id

-- statement: evidence_of
-- The case and one evaluator's evidence of some rows, of their first trial.
SELECT rows.row_id, case_key, question, arg_min(evidence, trial) AS evidence
FROM rows
JOIN cases USING (case_id)
LEFT JOIN evidence ON evidence.row_id = rows.row_id AND evaluator_id = $evaluator
WHERE rows.row_id IN (SELECT unnest($rows::UINTEGER[]))
GROUP BY ALL

-- statement: failures
-- Per model, rows of original cases that fail and that pass the must and should metrics of quality: how many, and at
-- most {most} of each, drawn by a digest of the case's key.
WITH counted AS (
    SELECT row_id, bool_or((value >= above) <> upper_is_good) AS fails
    FROM row_scores
    JOIN targets USING (metric_id)
    WHERE
        value IS NOT NULL
        AND above IS NOT NULL
        AND metric_id IN ({quality})
    GROUP BY row_id
)
SELECT
    model_id,
    count(*) AS n_rows,
    count_if(fails) AS n_failing,
    coalesce(arg_min(row_id, (md5(case_key), row_id), {most}) FILTER (fails), []) AS failing,
    coalesce(arg_min(row_id, (md5(case_key), row_id), {most}) FILTER (NOT fails), []) AS passing
FROM counted
JOIN rows USING (row_id)
JOIN cases USING (case_id)
WHERE case_id NOT IN (
    SELECT case_id FROM relationships WHERE type = 'perturbation_source' AND case_id <> original_case_id
)
GROUP BY model_id
ORDER BY model_id

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
WHERE NOT ({elsewhere})
GROUP BY ALL
ORDER BY evaluator_id, model_id, type, severity

-- statement: flags_named_elsewhere
-- A condition on the lines of flags: the row could not be scored, or it fails a metric that must or should be good.
(evaluator_id, row_id) IN (
    SELECT (evaluator_id, row_id) FROM row_scores JOIN metrics USING (metric_id) WHERE status = 'unscored'
)
OR (
    flag.type NOT IN ('evaluation', 'dataset')
    AND (evaluator_id, row_id) IN (
        SELECT (evaluator_id, row_id)
        FROM row_scores
        JOIN metrics USING (metric_id)
        JOIN targets USING (metric_id)
        JOIN rules USING (metric_id)
        WHERE role <> 'information' AND value IS NOT NULL AND (value >= above) <> upper_is_good
    )
)

-- statement: flip_totals
-- Evaluators and models with more flipped cases than have a problem each.
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

-- statement: cached_trials
-- Evaluators whose judge samples, and yet gave for many rows, in every further trial, the very text of the first one.
WITH sampling AS (
    SELECT evaluator_id FROM evaluators WHERE try_cast(identity ->> '$.judge.temperature' AS DOUBLE) > 0
),
repeated AS (
    SELECT evaluator_id, later.row_id, later.trial, (later.evidence ->> '$.message') = (firsts.evidence ->> '$.message') AS same
    FROM evidence AS later
    JOIN evidence AS firsts USING (evaluator_id, row_id)
    SEMI JOIN sampling USING (evaluator_id)
    WHERE later.trial > 0 AND firsts.trial = 0 AND length(later.evidence ->> '$.message') >= 30
    UNION
    SELECT evaluator_id, row_id, trial, same_reason
    FROM repeats
    JOIN metrics USING (metric_id)
    SEMI JOIN sampling USING (evaluator_id)
    WHERE same_reason IS NOT NULL
)
SELECT evaluator_id, count(*) AS n, min(row_id, {most}) AS row_ids
FROM repeated
GROUP BY evaluator_id
HAVING count(*) >= {least} AND bool_and(same)
ORDER BY evaluator_id

-- statement: judged_flips
-- Flip rates of the metrics that ask a judge, all perturbations together.
SELECT flip_rates.*, evaluator_id
FROM flip_rates
JOIN metrics USING (metric_id)
WHERE perturbation = '' AND net_method IS DISTINCT FROM 'deterministic'
ORDER BY metric_id, model_id

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

-- statement: pair_texts
-- Keys and questions of pairs of original rows ($1) and perturbed ones ($2).
WITH pairs AS (SELECT unnest($1::UINTEGER[]) AS original_row_id, unnest($2::UINTEGER[]) AS row_id)
SELECT
    pairs.row_id,
    originals.case_key AS original,
    perturbed.case_key AS perturbed,
    originals.question AS original_question,
    perturbed.question AS perturbed_question
FROM (SELECT *, row_number() OVER () AS place FROM pairs) AS pairs
JOIN rows AS original_rows ON original_rows.row_id = original_row_id
JOIN rows AS perturbed_rows ON perturbed_rows.row_id = pairs.row_id
JOIN cases AS originals ON originals.case_id = original_rows.case_id
JOIN cases AS perturbed ON perturbed.case_id = perturbed_rows.case_id
ORDER BY place

-- statement: perturbations
-- Per model and kind of perturbation, how many pairs turned on some of the metrics in flipping, and which turned bad,
-- those on must metrics first. A case counts as worse if more of its copies turned bad on some metric than good on some.
WITH turned AS (
    SELECT
        model_id,
        CASE WHEN EXISTS (FROM flip_rates WHERE perturbation <> '') THEN coalesce(perturbation, '') ELSE '' END AS kind,
        original_case_id,
        original_row_id,
        perturbed_row_id,
        coalesce(list(metric_id ORDER BY metric_id) FILTER (direction = 'passed_to_failed'), []) AS fell,
        bool_or(direction = 'failed_to_passed') AS rose,
        coalesce(bool_or(confirmed) FILTER (direction = 'passed_to_failed'), false) AS confirmed,
        coalesce(bool_or(must) FILTER (direction = 'passed_to_failed'), false) AS must
    FROM flips
    JOIN flipping USING (metric_id, model_id)
    GROUP BY ALL
),
by_case AS (
    SELECT model_id, kind, count_if(len(fell) > 0) AS n_fell, count_if(rose) AS n_rose, count_if(confirmed) AS n_confirmed
    FROM turned
    GROUP BY model_id, kind, original_case_id
),
cases_turned AS (
    SELECT
        model_id,
        kind,
        sum(n_fell)::BIGINT AS n_worse,
        sum(n_rose)::BIGINT AS n_better,
        sum(n_confirmed)::BIGINT AS n_confirmed,
        count_if(n_fell > n_rose) AS worse_cases,
        count_if(n_rose > n_fell) AS better_cases
    FROM by_case
    GROUP BY model_id, kind
),
metrics_fallen AS (
    SELECT
        model_id,
        kind,
        list(metric_id ORDER BY n DESC, metric_id) AS metric_ids,
        list(n ORDER BY n DESC, metric_id) AS metric_counts
    FROM (
        SELECT model_id, kind, metric_id, count(*) AS n
        FROM (SELECT model_id, kind, unnest(fell) AS metric_id FROM turned)
        GROUP BY model_id, kind, metric_id
    )
    GROUP BY model_id, kind
),
worst_pairs AS (
    SELECT
        model_id,
        kind,
        arg_min(
            {{'original': original_row_id, 'perturbed': perturbed_row_id}},
            (NOT must, -len(fell), perturbed_row_id),
            {most}
        ) AS pairs
    FROM turned
    WHERE len(fell) > 0
    GROUP BY model_id, kind
),
sizes AS (
    SELECT model_id, perturbation AS kind, max(n_pairs)::BIGINT AS n_pairs
    FROM flip_rates
    JOIN flipping USING (metric_id, model_id)
    GROUP BY model_id, perturbation
),
unnamed AS ( -- pairs of which the dataset does not say what was done: all of a model's less those of the named kinds
    SELECT model_id, '' AS kind, sum(CASE WHEN kind = '' THEN n_pairs ELSE -n_pairs END)::BIGINT AS n_pairs
    FROM sizes
    GROUP BY model_id
),
copies AS (
    SELECT coalesce(perturbation, '') AS kind, count(DISTINCT original_case_id) / count(*) AS originals_share
    FROM relationships
    GROUP BY GROUPING SETS ((perturbation), ()) -- those without a kind, or of too many kinds, share that of all
    QUALIFY row_number() OVER (PARTITION BY kind ORDER BY originals_share) = 1
)
SELECT
    model_id,
    kind AS perturbation,
    greatest(n_pairs, coalesce(n_worse, 0)) AS n_pairs,
    coalesce(n_worse, 0) AS n_worse,
    coalesce(n_better, 0) AS n_better,
    coalesce(n_confirmed, 0) AS n_confirmed,
    coalesce(worse_cases, 0) AS worse_cases,
    coalesce(better_cases, 0) AS better_cases,
    coalesce(metric_ids, []) AS metric_ids,
    coalesce(metric_counts, []) AS metric_counts,
    coalesce(pairs, []) AS pairs,
    coalesce(originals_share, 1) AS originals_share
FROM (FROM sizes WHERE kind <> '' UNION ALL FROM unnamed)
LEFT JOIN cases_turned USING (model_id, kind)
LEFT JOIN metrics_fallen USING (model_id, kind)
LEFT JOIN worst_pairs USING (model_id, kind)
LEFT JOIN copies USING (kind)
WHERE n_pairs > 0 OR n_worse > 0
ORDER BY model_id, coalesce(n_worse, 0) DESC, kind

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

-- statement: row_texts
-- What the root cause of rows of RAG models is found by.
SELECT
    row_id,
    actual_answer,
    expected_answers,
    expected_documents,
    [chunk.content FOR chunk IN retrieved_context] AS contexts,
    [chunk.doc_uri FOR chunk IN retrieved_context] AS documents,
    EXISTS (FROM cases AS every WHERE len(every.expected_documents) > 0) AS documents_stated
FROM rows
JOIN cases USING (case_id)
JOIN models USING (model_id)
WHERE is_rag AND error IS NULL AND row_id IN (SELECT unnest($1::UINTEGER[]))
ORDER BY row_id

-- statement: row_values
-- The values of some metrics on some rows.
SELECT metric_id, row_id, value
FROM row_scores
WHERE value IS NOT NULL
  AND metric_id IN (SELECT unnest($1::USMALLINT[]))
  AND row_id IN (SELECT unnest($2::UINTEGER[]))

-- statement: unscored
-- Rows that could not be measured, by evaluator, reason and model, with the commonest message of the instrument; why it
-- was not asked goes before what happened until then.
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
    coalesce(mode(messages.error) FILTER (starts_with(messages.error, '{not_asked}')), mode(messages.error)) AS message,
    min(lost.row_id, {most}) AS row_ids
FROM lost
JOIN rows USING (row_id)
LEFT JOIN messages ON messages.evaluator_id = lost.evaluator_id AND messages.row_id = lost.row_id
GROUP BY ALL
ORDER BY lost.evaluator_id, reason, model_id

-- statement: corrected
-- Corrected values that decide: of metrics whose rule says so, by labels of this run's rows, with a valid certificate.
SELECT corrections.*, rules.role, rules.weight, rules.min_rows
FROM corrections
JOIN rules USING (metric_id)
JOIN certificates USING (metric_id)
WHERE
    rules.use = 'corrected' AND rules.role <> 'information' AND state = 'valid' AND method <> 'rogan-gladen'
    AND value IS NOT NULL AND wanted IS NOT NULL
ORDER BY metric_id, model_id
