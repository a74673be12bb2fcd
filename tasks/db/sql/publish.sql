-- What the results are made of. Statements are named; {names} are filled in by tasks/publish.

-- statement: run_models
-- The models that this run looked at; all of the dataset's when nothing was measured.
CREATE OR REPLACE TEMP TABLE run_models AS
WITH used AS (
    SELECT model_id FROM aggregates
    UNION
    SELECT model_id FROM rows WHERE row_id IN (SELECT row_id FROM scores)
)
SELECT * FROM models
WHERE model_id IN (SELECT model_id FROM used) OR NOT EXISTS (SELECT 1 FROM used);

-- statement: run_rows
CREATE OR REPLACE TEMP VIEW run_rows AS
SELECT rows.* FROM rows WHERE model_id IN (SELECT model_id FROM run_models);

-- statement: sizes
SELECT
    (SELECT count(DISTINCT case_id) FROM run_rows),
    (SELECT count(*) FROM run_rows),
    (SELECT count(*) FROM flips);

-- statement: counts
SELECT status::VARCHAR, count(*) FROM scores GROUP BY ALL;

-- statement: models
SELECT
    run_models.model_id AS id, model_key AS key, name, version, is_rag,
    count(row_id) AS n_rows,
    count(run_rows.error) AS n_errors,
    avg(duration_s) AS mean_duration_s,
    sum(greatest(cost_usd, 0)) FILTER (cost_usd IS NOT NULL) AS total_cost_usd
FROM run_models LEFT JOIN run_rows USING (model_id)
GROUP BY ALL ORDER BY id;

-- statement: evaluators
SELECT
    evaluator_id AS id, evaluator AS key, name, family, lane, leaderboard AS board, config, identity, params,
    reused, computed, error
FROM evaluators ORDER BY evaluator_id;

-- statement: metrics
SELECT
    metric_id AS id, evaluator_id, metric AS key, name, description, higher_is_better, low, high, threshold,
    is_primary AS primary, is_share AS share, dataset_level
FROM metrics ORDER BY evaluator_id, is_primary DESC, metric_id;

-- statement: aggregates
SELECT
    metric_id, model_id, n_rows, n_scored, n_unscored, n_not_applicable, reasons, value, ci_low, ci_high, ci_method,
    std, minimum, maximum, if_worst, if_best, threshold, n_pass, pass_share, pass_low, pass_high, verdict
FROM aggregates ORDER BY metric_id, model_id;

-- statement: trial_spread
SELECT
    metric_id, model_id, n_trials, n_rows, n_differ, differ_share, n_cross, cross_share, within_std, lowest_mean,
    highest_mean, means_std
FROM trial_spread ORDER BY metric_id, model_id;

-- statement: flip_rates
SELECT
    metric_id, model_id, perturbation, n_pairs, n_passed_to_failed, n_failed_to_passed, rate, ci_low, ci_high
FROM flip_rates ORDER BY perturbation, metric_id, model_id;

-- statement: problems
SELECT
    problem_id AS id, severity, type, instrument, evaluator_id, metric_id, model_id, description, actions, attrs, row_ids
FROM problems ORDER BY problem_id;

-- statement: insights
SELECT
    insight_id AS id, '' AS severity, type, false AS instrument, evaluator_id, metric_id, model_id, description, actions,
    attrs, row_ids
FROM insights ORDER BY insight_id;

-- statement: finding_rows
SELECT row_id, case_key, model_key
FROM rows JOIN cases USING (case_id) JOIN models USING (model_id)
WHERE row_id IN (SELECT unnest(row_ids) FROM problems UNION SELECT unnest(row_ids) FROM insights);

-- statement: unmeasured
-- Rows without a score, by evaluator and reason, with the message that the instrument gave most often.
WITH lost AS (
    SELECT DISTINCT evaluator_id, row_id, trial, reason
    FROM scores JOIN metrics USING (metric_id)
    WHERE status = 'unscored'
)
SELECT
    evaluator_id,
    coalesce(reason, 'unknown') AS reason,
    count(DISTINCT row_id) AS n_rows,
    coalesce(mode(left(error, 300)), '') AS message
FROM lost LEFT JOIN evidence USING (evaluator_id, row_id, trial)
GROUP BY ALL ORDER BY evaluator_id, n_rows DESC, 2;

-- statement: histograms
-- Bins of the rows' values by metric and model. An infinite value is counted in the bin at its end.
WITH bounds AS (
    SELECT
        metric_id,
        coalesce(CASE WHEN isfinite(low) THEN low END, min(value) FILTER (isfinite(value)), 0) AS a,
        coalesce(CASE WHEN isfinite(high) THEN high END, max(value) FILTER (isfinite(value)), 1) AS b
    FROM metrics JOIN scores USING (metric_id)
    WHERE status = 'scored' AND NOT is_share AND NOT dataset_level
    GROUP BY metric_id, low, high
),
axes AS (SELECT metric_id, a, CASE WHEN b > a THEN b ELSE a + 1 END AS b FROM bounds)
SELECT
    metric_id, model_id, a, b,
    greatest(0, least({bins} - 1, CASE
        WHEN isfinite(value) THEN floor((value - a) / (b - a) * {bins})
        WHEN value > 0 THEN {bins} - 1 ELSE 0 END))::INTEGER AS bin,
    count(*) AS n
FROM scores JOIN axes USING (metric_id) JOIN rows USING (row_id)
WHERE status = 'scored'
GROUP BY ALL ORDER BY ALL;

-- statement: scores_table
SELECT
    case_key AS "case", model_key AS model, evaluator, metric, trial, status::VARCHAR AS status, reason, value
FROM scores
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
ORDER BY evaluator_id, metric_id, row_id, trial

-- statement: aggregates_table
SELECT
    evaluator, metrics.metric, metrics.is_primary AS "primary", model_key AS model,
    aggregates.* EXCLUDE (metric_id, model_id)
FROM aggregates
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
ORDER BY evaluator_id, metric_id, model_id

-- statement: problems_table
SELECT
    problem_id, severity, type, instrument, evaluator, metrics.metric, model_key AS model, problems.description, actions,
    attrs, len(row_ids) AS n_rows
FROM problems
LEFT JOIN metrics ON metrics.metric_id = problems.metric_id
LEFT JOIN evaluators ON evaluators.evaluator_id = problems.evaluator_id
LEFT JOIN models ON models.model_id = problems.model_id
ORDER BY problem_id

-- statement: flips_table
SELECT
    evaluator, metric, model_key AS model, originals.case_key AS original_case, perturbed.case_key AS perturbed_case,
    perturbation, direction, original_value, perturbed_value, flips.threshold
FROM flips
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
JOIN cases originals ON originals.case_id = original_case_id
JOIN cases perturbed ON perturbed.case_id = perturbed_case_id
ORDER BY evaluator_id, metric_id, model_id, perturbed_case_id

-- statement: text_size
-- Characters of all texts of the run's rows: what one copy of them takes.
SELECT coalesce(sum(
    coalesce(length(actual_answer), 0)
    + coalesce(list_sum(list_transform(retrieved_context, lambda chunk: length(chunk.content))), 0)
), 0) FROM run_rows;

-- statement: eval_inputs
-- By evaluator a digest of all that its files of rows hold beside the dataset: XOR of the lines' MD5, in any order.
SELECT evaluator_id, string_agg(part, ' ' ORDER BY part)
FROM (
    SELECT evaluator_id, 'scores ' || count(*) || ' ' || bit_xor(md5_number(
        json_array(metric, row_id, trial, status, reason, value::VARCHAR)::VARCHAR)) AS part
    FROM scores JOIN metrics USING (metric_id)
    GROUP BY evaluator_id
    UNION ALL
    SELECT evaluator_id, 'evidence ' || count(*) || ' ' || bit_xor(md5_number(
        json_array(row_id, trial, evidence, error)::VARCHAR))
    FROM evidence
    GROUP BY evaluator_id
)
GROUP BY evaluator_id;

-- statement: flips_digest
SELECT count(*), bit_xor(md5_number(flips::VARCHAR)) FROM flips;

-- statement: eval_rows
-- One line per row and trial of one evaluator. An evaluator that could not run has none.
CREATE OR REPLACE TEMP TABLE eval_rows AS
WITH measured AS (
    SELECT row_id, trial, {pivot}
        max(reason) FILTER (status = 'unscored') AS reason
    FROM scores WHERE metric_id IN ({metric_ids})
    GROUP BY row_id, trial
)
SELECT
    case_key || '_' || model_key || CASE WHEN trial > 0 THEN '_' || trial ELSE '' END AS key,
    case_key AS test_case_key,
    model_key, trial, question, expected_answers, expected_documents, condition, categories,
    actual_answer, retrieved_context, duration_s, cost_usd, rows.error AS host_error,
    {metrics}
    reason AS unscored_reason, evidence.error AS result_error_message, evidence.evidence, row_id
FROM measured
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
LEFT JOIN (SELECT * FROM evidence WHERE evaluator_id = {evaluator_id}) AS evidence USING (row_id, trial);

-- statement: eval_flat
SELECT
    key, question AS input, {texts}
    condition AS output_condition, duration_s AS actual_duration, cost_usd AS cost, model_key, test_case_key, trial,
    {metrics}
    unscored_reason, coalesce(host_error, result_error_message) AS result_error_message
FROM eval_rows ORDER BY row_id, trial

-- statement: eval_flat_texts
    to_json(expected_documents) AS corpus,
    to_json(list_transform(retrieved_context, lambda chunk: chunk.content)) AS context,
    to_json(categories) AS categories,
    array_to_string(expected_answers, chr(10)) AS expected_output, actual_answer AS actual_output,

-- statement: eval_json
SELECT
    key, question AS input, {texts}
    condition AS output_condition, duration_s AS actual_duration, cost_usd AS cost, model_key, test_case_key, trial,
    {metrics}
    unscored_reason, coalesce(host_error, result_error_message) AS result_error_message,
    CASE WHEN json_valid(evidence) THEN json_extract_string(evidence, '$.message') END AS message,
    CASE WHEN spans IS NULL THEN [] ELSE [{{'tokenization': {tokenization}, 'data': list_transform(spans, lambda span: {{
        'text': substring(
            CASE span.source
                WHEN 'actual_answer' THEN actual_answer
                WHEN 'question' THEN question
                WHEN 'expected_answer' THEN expected_answers[coalesce(span.index, 0) + 1]
                WHEN 'retrieved_context' THEN retrieved_context[coalesce(span.index, 0) + 1].content
            END, span.start + 1, span."end" - span.start),
        'metrics': {{{primary}: span.value}},
        'meta': {{
            'source': span.source, 'index': coalesce(span.index, 0), 'start': span.start, 'end': span."end",
            'note': coalesce(span.note, '')
        }}
    }})}}] END AS actual_output_meta
FROM (
    SELECT *, from_json(
        CASE WHEN json_valid(evidence) THEN json_extract(evidence, '$.spans') END,
        '[{{"source":"VARCHAR","start":"BIGINT","end":"BIGINT","index":"BIGINT","value":"DOUBLE","note":"VARCHAR"}}]'
    ) AS spans
    FROM eval_rows
) ORDER BY row_id, trial

-- statement: eval_json_texts
    expected_documents AS corpus, list_transform(retrieved_context, lambda chunk: chunk.content) AS context, categories,
    array_to_string(expected_answers, chr(10)) AS expected_output, expected_answers, actual_answer AS actual_output,

-- statement: error_messages
SELECT reason, left(evidence.error, 1000) AS message, count(DISTINCT row_id) AS n
FROM evidence JOIN (
    SELECT row_id, trial, max(reason) AS reason FROM scores
    WHERE status = 'unscored' AND metric_id IN ({metric_ids}) GROUP BY ALL
) USING (row_id, trial)
WHERE evaluator_id = {evaluator_id} AND evidence.error IS NOT NULL
GROUP BY ALL ORDER BY n DESC, message LIMIT 200;

-- statement: hardest
-- Cases that most models failed, by one metric. fails is the test for a failure.
SELECT
    case_key, left(coalesce(question, ''), 400) AS question,
    count(*) FILTER ({fails}) AS failed, count(*) AS scored,
    list(model_key ORDER BY model_id) FILTER ({fails}) AS models
FROM scores
JOIN rows USING (row_id) JOIN cases USING (case_id) JOIN models USING (model_id)
WHERE metric_id = {metric_id} AND status = 'scored'
GROUP BY case_id, case_key, question
HAVING failed > 0 ORDER BY failed DESC, case_id LIMIT {limit};

-- statement: page_ranking
-- How much there is to see in each case, and what it takes: the flipped, the unscored and the failed come first, and
-- every fourth place goes to the others, so that the page also shows what is right.
WITH per_row AS (
    SELECT
        row_id,
        count(*) FILTER (status = 'unscored') AS lost,
        count(*) FILTER (status = 'scored' AND is_primary AND CASE
            WHEN higher_is_better THEN value < metrics.threshold ELSE value > metrics.threshold END) AS failed,
        coalesce(sum(12), 0) AS size
    FROM scores JOIN metrics USING (metric_id)
    GROUP BY row_id
),
evidence_size AS (
    SELECT row_id, sum(coalesce(strlen(evidence), 0) + coalesce(strlen(error), 0)) AS size FROM evidence GROUP BY row_id
),
flipped AS (
    SELECT unnest([original_case_id, perturbed_case_id]) AS case_id, count(*) AS flips FROM flips GROUP BY 1
),
per_case AS (
    SELECT
        case_id,
        sum(coalesce(lost, 0)) AS lost,
        sum(coalesce(failed, 0)) AS failed,
        sum(
            coalesce(strlen(actual_answer), 0) + coalesce(strlen(run_rows.error), 0) + coalesce(per_row.size, 0)
            + coalesce(evidence_size.size, 0) + 100
            + coalesce(list_sum(list_transform(retrieved_context,
                lambda chunk: strlen(chunk.content) + coalesce(strlen(chunk.doc_uri), 0) + 12)), 0)
        ) AS size
    FROM run_rows LEFT JOIN per_row USING (row_id) LEFT JOIN evidence_size USING (row_id)
    GROUP BY case_id
),
kinds AS (
    SELECT
        case_id, lost, failed, coalesce(flips, 0) AS flips,
        size + coalesce(strlen(question), 0) + coalesce(list_sum(list_transform(expected_answers, lambda x: strlen(x))), 0)
            + coalesce(strlen(condition), 0) + 100 AS size,
        CASE WHEN flips > 0 THEN 0 WHEN lost > 0 THEN 1 WHEN failed > 0 THEN 2 ELSE 3 END AS kind
    FROM per_case JOIN cases USING (case_id) LEFT JOIN flipped USING (case_id)
)
SELECT case_id, size::BIGINT
FROM kinds
ORDER BY
    row_number() OVER (PARTITION BY kind ORDER BY failed + lost + flips DESC, case_id) * CASE kind WHEN 3 THEN 4 ELSE 1 END,
    kind;

-- statement: page_cases
SELECT
    case_id AS id, case_key AS k, question AS q,
    if(len(expected_answers) = 0 AND {labels} IS NOT NULL, [{labels}], expected_answers) AS x, expected_documents AS d, condition AS c,
    categories AS g,
    coalesce((
        SELECT list([originals.case_key, perturbation] ORDER BY original_case_id)
        FROM relationships JOIN cases originals ON originals.case_id = original_case_id
        WHERE relationships.case_id = cases.case_id
    ), []) AS o
FROM cases JOIN page_cases USING (case_id)
ORDER BY case_id;

-- statement: page_rows
-- What a model found in a data item stands in the place of an answer, as the values of its labels.
SELECT row_id, case_id, model_id, coalesce(actual_answer, {labels}) AS actual_answer, error, duration_s, cost_usd, retrieved_context
FROM run_rows JOIN page_cases USING (case_id)
ORDER BY case_id, model_id;

-- statement: page_scores
-- A row's value is the mean of its trials, to six significant digits: more is of no use to a reader.
SELECT metric_id, row_id, format('{:.6g}', avg(value))::DOUBLE AS value
FROM scores JOIN rows USING (row_id) JOIN page_cases USING (case_id)
WHERE status = 'scored'
GROUP BY metric_id, row_id;

-- statement: page_trials
-- What each trial of a row said, null where it has no score.
SELECT metric_id, row_id, list(value ORDER BY trial) AS trials
FROM scores JOIN rows USING (row_id) JOIN page_cases USING (case_id)
WHERE metric_id IN (SELECT metric_id FROM trial_spread)
GROUP BY metric_id, row_id
HAVING count(*) > 1
ORDER BY row_id, metric_id;

-- statement: page_unscored
SELECT evaluator_id, row_id, coalesce(max(reason), 'unknown') AS reason
FROM scores JOIN metrics USING (metric_id) JOIN rows USING (row_id) JOIN page_cases USING (case_id)
WHERE status = 'unscored'
GROUP BY evaluator_id, row_id;

-- statement: page_evidence
SELECT evaluator_id, row_id, evidence.evidence, evidence.error
FROM evidence JOIN rows USING (row_id) JOIN page_cases USING (case_id)
WHERE evidence.evidence IS NOT NULL OR evidence.error IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY evaluator_id, row_id ORDER BY trial) = 1
ORDER BY row_id, evaluator_id;

-- statement: page_flips
-- Primary metrics first, and of those what got worse.
SELECT
    metric_id, model_id, originals.case_key, perturbed.case_key, original_row_id, perturbed_row_id, original_value,
    perturbed_value, direction, coalesce(perturbation, '') AS perturbation
FROM flips
JOIN metrics USING (metric_id)
JOIN cases originals ON originals.case_id = original_case_id
JOIN cases perturbed ON perturbed.case_id = perturbed_case_id
ORDER BY is_primary DESC, direction = 'passed_to_failed' DESC, metric_id, model_id, perturbed_case_id
LIMIT {limit};

-- statement: flipped_rows
SELECT DISTINCT row_id
FROM (SELECT unnest([original_row_id, perturbed_row_id]) AS row_id FROM flips)
JOIN rows USING (row_id) JOIN page_cases USING (case_id)
ORDER BY row_id;
