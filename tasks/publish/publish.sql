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

-- statement: row_scores
-- One evaluator on one row in one trial is one row score; each of its metrics has a line for it.
SELECT coalesce(sum(n), 0)::BIGINT
FROM (
    SELECT evaluator_id, max(n) AS n
    FROM (SELECT metric_id, count(*) AS n FROM scores GROUP BY metric_id) JOIN metrics USING (metric_id)
    GROUP BY evaluator_id
);

-- statement: models
SELECT
    run_models.model_id AS id, model_key AS key, name, version, is_rag,
    count(row_id) AS n_rows,
    count(run_rows.error) AS n_errors,
    avg(duration_s) FILTER (run_rows.error IS NULL) AS mean_duration_s, -- as the insights have it
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
    is_primary AS primary, is_share AS share, dataset_level, role
FROM metrics JOIN rules USING (metric_id)
ORDER BY evaluator_id, is_primary DESC, metric_id;

-- statement: finding_rows
SELECT row_id, case_key, model_key
FROM rows JOIN cases USING (case_id) JOIN models USING (model_id)
WHERE row_id IN (SELECT unnest(row_ids) FROM problems UNION SELECT unnest(row_ids) FROM insights);

-- statement: must_failures
-- Answers by model that fail some metric that must hold, of the models to which one applies; likeness is left out, as for
-- sound rows (insights.sql).
SELECT model_id, count(DISTINCT row_id) FILTER ((value >= above) <> upper_is_good)
FROM row_scores
JOIN targets USING (metric_id)
JOIN rules USING (metric_id)
JOIN rows USING (row_id)
WHERE role = 'must' AND status = 'scored' AND proof <> 'likeness'
GROUP BY model_id;

-- statement: summary_rows
-- Texts of the examples in the summary, no more of them than an excerpt can need.
SELECT row_id, case_key, model_id, left(question, 2000), left(actual_answer, 100000), expected_answers[1:200]
FROM rows JOIN cases USING (case_id)
WHERE list_contains(?::UINTEGER[], row_id);

-- statement: summary_evidence
-- Evidence of some rows: of the evaluators that they fail first, by what the policy asks of them.
SELECT evidence.row_id, evidence.evaluator_id, min_by(evidence.evidence, evidence.trial), failed.row_id IS NOT NULL
FROM evidence
LEFT JOIN (
    SELECT DISTINCT evaluator_id, row_id
    FROM scores JOIN metrics USING (metric_id)
    WHERE is_primary AND CASE
        WHEN higher_is_better THEN value < metrics.threshold ELSE value > metrics.threshold END
) failed USING (evaluator_id, row_id)
WHERE list_contains(?::UINTEGER[], evidence.row_id) AND evidence.evidence IS NOT NULL
GROUP BY evidence.row_id, evidence.evaluator_id, failed.row_id
ORDER BY evidence.row_id, failed.row_id IS NULL, evidence.evaluator_id;

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
-- Every score, or those of one metric; passes says whether the value satisfies the run's threshold.
SELECT {columns}
FROM scores
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN (SELECT row_id, case_id, model_id FROM rows) AS rows USING (row_id)
JOIN (SELECT case_id, case_key FROM cases) AS cases USING (case_id)
JOIN models USING (model_id)
WHERE $metric IS NULL OR metric_id = $metric
ORDER BY metric_id, row_id, trial

-- statement: aggregates_table
SELECT {columns}
FROM aggregates
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN models USING (model_id)
ORDER BY evaluator_id, metric_id, model_id

-- statement: problems_table
SELECT {columns}
FROM problems
LEFT JOIN metrics ON metrics.metric_id = problems.metric_id
LEFT JOIN evaluators ON evaluators.evaluator_id = problems.evaluator_id
LEFT JOIN models ON models.model_id = problems.model_id
ORDER BY problem_id

-- statement: flips_table
SELECT {columns}
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

-- statement: page_all
-- The cases of the page are all cases; examples are those that findings lead to.
CREATE OR REPLACE TEMP TABLE page_cases AS
SELECT DISTINCT
    case_id, case_id IN (SELECT case_id FROM rows WHERE list_contains(($examples::UINTEGER[])[:$roomy], row_id)) AS example
FROM run_rows;

-- statement: page_choice
-- The cases of a page that cannot hold all, up to $most rows: the examples of findings and changes first. Of what is left,
-- two fifths are the worst cases and two fifths a random sample; the rest are the best, the flipped and the unscored ones.
CREATE OR REPLACE TEMP TABLE page_cases AS
WITH scales AS (
    SELECT
        metric_id, higher_is_better, metrics.threshold, role,
        min(minimum) FILTER (isfinite(minimum)) AS low, max(maximum) FILTER (isfinite(maximum)) AS high
    FROM metrics JOIN rules USING (metric_id) JOIN aggregates USING (metric_id)
    WHERE is_primary AND NOT dataset_level
    GROUP BY ALL
),
measured AS (
    SELECT
        row_id, status = 'unscored' AS lost,
        CASE WHEN CASE WHEN higher_is_better THEN value < threshold ELSE value > threshold END
            THEN CASE role WHEN 'must' THEN 100 WHEN 'should' THEN 1 ELSE 0 END ELSE 0 END AS failed,
        CASE WHEN high > low THEN
            (CASE WHEN higher_is_better THEN 1 ELSE -1 END) * (least(greatest(value, low), high) - low) / (high - low)
        END AS quality
    FROM scores JOIN scales USING (metric_id)
),
per_case AS (
    SELECT case_id, sum(failed) AS failed, count(*) FILTER (lost) AS lost, avg(quality) AS quality
    FROM measured JOIN (SELECT row_id, case_id FROM run_rows) USING (row_id)
    GROUP BY case_id
),
flipped AS (
    SELECT unnest([original_case_id, perturbed_case_id]) AS case_id, count(*) AS flips FROM flips GROUP BY 1
),
examples AS (
    SELECT case_id, min(place) AS place
    FROM (SELECT unnest($examples::UINTEGER[]) AS row_id, generate_subscripts($examples::UINTEGER[], 1) AS place)
    JOIN rows USING (row_id)
    GROUP BY case_id
),
listed AS MATERIALIZED (
    SELECT case_id, n, failed, lost, quality, flips, md5(case_key) AS chance
    FROM (SELECT case_id, count(*) AS n FROM run_rows GROUP BY case_id)
    JOIN (SELECT case_id, case_key FROM cases) USING (case_id)
    LEFT JOIN per_case USING (case_id)
    LEFT JOIN flipped USING (case_id)
),
turns AS ( -- of each order only as many as the page may hold: sorting all cases five times takes longer than the rest
    SELECT case_id, 2.5 * row_number() OVER (ORDER BY failed DESC NULLS LAST, quality NULLS LAST, case_id) AS turn
    FROM (FROM listed ORDER BY failed DESC NULLS LAST, quality NULLS LAST, case_id LIMIT $most)
    UNION ALL
    SELECT case_id, 2.5 * row_number() OVER (ORDER BY chance, case_id)
    FROM (FROM listed ORDER BY chance, case_id LIMIT $most)
    UNION ALL
    SELECT case_id, 15 * row_number() OVER (ORDER BY failed NULLS LAST, lost, quality DESC NULLS LAST, case_id)
    FROM (FROM listed ORDER BY failed NULLS LAST, lost, quality DESC NULLS LAST, case_id LIMIT $most)
    UNION ALL
    SELECT case_id, 15 * row_number() OVER (ORDER BY flips DESC, case_id)
    FROM (FROM listed WHERE flips > 0 ORDER BY flips DESC, case_id LIMIT $most)
    UNION ALL
    SELECT case_id, 15 * row_number() OVER (ORDER BY lost DESC, case_id)
    FROM (FROM listed WHERE lost > 0 ORDER BY lost DESC, case_id LIMIT $most)
    UNION ALL
    SELECT case_id, NULL FROM examples
),
ranked AS (
    SELECT case_id, any_value(n) AS n, min(place) AS place, min(turn) AS turn
    FROM turns JOIN listed USING (case_id) LEFT JOIN examples USING (case_id)
    GROUP BY case_id
)
SELECT case_id, coalesce(place <= $roomy, false) AS example
FROM ranked
QUALIFY sum(n) OVER (ORDER BY place NULLS LAST, turn, case_id ROWS UNBOUNDED PRECEDING) - n < $most;

-- statement: page_row_ids
SELECT row_id, example FROM run_rows JOIN page_cases USING (case_id) ORDER BY case_id, model_id, row_id;

-- statement: page_length
-- About the characters that the texts of the chosen rows take if none is longer than a limit, by limit.
WITH lengths AS MATERIALIZED (
    SELECT
        coalesce(length(actual_answer), 0) AS answer,
        list_transform(retrieved_context, lambda chunk: length(chunk.content)) AS context
    FROM run_rows JOIN page_cases USING (case_id)
)
SELECT most, sum(least(answer, most) + coalesce(list_sum(list_transform(context, lambda n: least(n, most // 2))), 0))
FROM lengths, (SELECT unnest($limits::INTEGER[]) AS most)
GROUP BY most ORDER BY most DESC;

-- statement: page_cases
-- Texts are cut; how long they were stands beside them.
SELECT
    case_id AS id, case_key AS k, left(question, {most}) AS q, length(question) AS q_length,
    list_transform(expected, lambda text: left(text, {most})) AS x,
    list_transform(expected, lambda text: length(text)) AS x_lengths, n_expected,
    list_transform(expected_documents[:{items}], lambda text: left(text, {line})) AS d, left(condition, {line}) AS c,
    list_transform(categories[:{items}], lambda text: left(text, {line})) AS g,
    coalesce((
        SELECT list([originals.case_key, left(perturbation, {line})] ORDER BY original_case_id)
        FROM relationships JOIN cases originals ON originals.case_id = original_case_id
        WHERE relationships.case_id = shown.case_id
    ), [])[:{items}] AS o
FROM (
    SELECT
        cases.* EXCLUDE (expected_answers), example,
        if(len(expected_answers) = 0 AND {labels} IS NOT NULL, [{labels}], expected_answers)[:{items}] AS expected,
        len(expected_answers) AS n_expected
    FROM cases JOIN page_cases USING (case_id)
) AS shown
ORDER BY case_id;

-- statement: page_rows
-- What a model found in a data item stands in the place of an answer, as the values of its labels. A cut text begins where
-- page_windows says, so that what was found in it is in view.
SELECT
    row_id, case_id, model_id,
    substring(answer, coalesce(answer_from, 0) + 1, {most}) AS answer, coalesce(answer_from, 0) AS answer_from,
    length(answer) AS answer_length,
    left(error, {most}) AS error, duration_s, cost_usd,
    list_transform(retrieved_context[:{items}], lambda chunk, place: {{
        'content': substring(chunk.content, coalesce(chunks_from[place], 0) + 1, {chunk}),
        'from': coalesce(chunks_from[place], 0), 'length': length(chunk.content), 'doc_uri': left(chunk.doc_uri, {line})
    }}) AS context,
    len(retrieved_context) AS n_context
FROM (
    SELECT run_rows.*, example, coalesce(actual_answer, {labels}) AS answer FROM run_rows JOIN page_cases USING (case_id)
) LEFT JOIN page_windows USING (row_id)
ORDER BY case_id, model_id, row_id;

-- statement: page_scores
-- By metric the values of all rows of the page in their order. A row's value is the mean of its trials, to six significant
-- digits: more is of no use to a reader.
WITH means AS (
    SELECT metric_id, row_id, format('{:.6g}', avg(value))::DOUBLE AS value
    FROM scores JOIN (SELECT row_id, case_id FROM rows) USING (row_id) JOIN page_cases USING (case_id)
    WHERE status = 'scored'
    GROUP BY metric_id, row_id
)
SELECT metric_id, list(value ORDER BY case_id, model_id, row_id)
FROM metrics
CROSS JOIN (SELECT row_id, case_id, model_id FROM run_rows JOIN page_cases USING (case_id))
LEFT JOIN means USING (metric_id, row_id)
GROUP BY metric_id;

-- statement: page_turn_scores
-- By metric the values of the turns of the page's conversations, in their order; null where a turn has none.
SELECT metric_id, conversation_id, list(value ORDER BY turn)
FROM (
    SELECT metric_id, conversation_id, turn, format('{:.6g}', avg(value))::DOUBLE AS value
    FROM turn_scores
    WHERE conversation_id IN (SELECT row_id FROM rows JOIN page_cases USING (case_id))
    GROUP BY metric_id, conversation_id, turn
)
GROUP BY metric_id, conversation_id;

-- statement: turn_curves
-- By metric, model and turn how many conversations have a value, its mean, and sums over the conversations and over the
-- families of copies and trials among them (see Clusters in tasks/statistics/statistics.py). The value is 1 for a
-- conversation that fails at the turn, where the metric has a threshold.
WITH told AS (
    SELECT
        metric_id, turn_means.model_id, turn, coalesce(family, -1 - case_id::BIGINT) AS cluster,
        coalesce(fails::DOUBLE, value) AS value
    FROM turn_means
    JOIN metrics USING (metric_id)
    JOIN rows ON row_id = conversation_id
    LEFT JOIN families USING (case_id)
    WHERE is_primary AND isfinite(value)
),
means AS (
    SELECT *, avg(value) OVER at_turn AS mean, count(*) OVER at_turn AS n
    FROM told
    WINDOW at_turn AS (PARTITION BY metric_id, model_id, turn)
),
by_cluster AS (
    SELECT
        metric_id, model_id, turn, any_value(n) AS n, any_value(mean) AS mean, count(*) AS size,
        coalesce(sum(value - mean) * any_value(n) / nullif(any_value(n) - count(*), 0), 0) AS influence,
        sum((value - mean) ** 2) AS squares,
        sum((value - mean) ** 3) AS cubes,
        var_pop(value) * count(*) AS within
    FROM means
    GROUP BY metric_id, model_id, turn, cluster
)
SELECT
    metric_id,
    model_id,
    turn,
    any_value(n) AS n,
    any_value(mean) AS mean,
    sum(squares) AS squares,
    sum(cubes) AS cubes,
    sum(size - 1) AS joined,
    sum(size * size - size) AS sizes,
    coalesce(sum(influence ** 2 - squares * (n / nullif(n - 1, 0)) ** 2), 0) AS covariance,
    coalesce(sum(influence ** 3 - cubes * (n / nullif(n - 1, 0)) ** 3), 0) AS coskewness,
    sum(within) AS within
FROM by_cluster
GROUP BY metric_id, model_id, turn
ORDER BY metric_id, model_id, turn;

-- statement: conversation_tests
-- Conversations by model, with the metrics that each fails which must or should hold: the first turn that fails, and what
-- its evaluator says of that, or of the whole.
WITH firsts AS (
    SELECT metric_id, conversation_id AS row_id, min(turn) AS turn FROM turn_means WHERE fails GROUP BY ALL
),
judged AS (
    SELECT
        row_id, evaluator_id, metric_id, evaluators.evaluator, metric, metrics.name, value, role, firsts.turn,
        above IS NOT NULL AND (value >= above) <> upper_is_good AS fails
    FROM row_scores
    JOIN targets USING (metric_id)
    JOIN rules USING (metric_id)
    JOIN metrics USING (metric_id)
    JOIN evaluators USING (evaluator_id)
    LEFT JOIN firsts USING (metric_id, row_id)
    WHERE role <> 'information' AND status = 'scored'
),
of_turns AS (
    SELECT evaluator_id, conversation_id AS row_id, turn, min_by(evidence, trial) AS evidence
    FROM turn_evidence
    GROUP BY ALL
),
of_wholes AS (SELECT evaluator_id, row_id, min_by(evidence, trial) AS evidence FROM evidence GROUP BY ALL),
told AS (
    SELECT
        row_id,
        count(*) AS n_scored,
        coalesce(list(
            (evaluator, metric, name, value, judged.turn, left(coalesce(
                of_turns.evidence ->> '$.message', of_wholes.evidence ->> '$.message'), 1000))
            ORDER BY role, metric_id
        ) FILTER (fails), []) AS failed
    FROM judged
    LEFT JOIN of_turns USING (evaluator_id, row_id, turn)
    LEFT JOIN of_wholes USING (evaluator_id, row_id)
    GROUP BY row_id
)
SELECT model_key AS model, case_key AS "case", coalesce(n_scored, 0) AS n_scored, coalesce(failed, []) AS failed
FROM run_rows
JOIN cases USING (case_id)
JOIN models USING (model_id)
LEFT JOIN told USING (row_id)
QUALIFY row_number() OVER (ORDER BY len(coalesce(failed, [])) = 0, row_id) <= $most
ORDER BY model_id, case_id, row_id;

-- statement: page_talks
-- A conversation is drawn from its beginning; what was said before it is the dataset's, as far as evaluators read it.
SELECT
    row_id, if(strlen(messages) <= $longest, messages, NULL), if(strlen(steps) <= $longest, steps, NULL),
    if(strlen(history) <= $longest, history, NULL)
FROM turns
WHERE unit <> 'turn' AND row_id IN (SELECT row_id FROM rows JOIN page_cases USING (case_id));

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
-- Of evidence that is longer than a page can use, the message and the spans are taken, or the first span.
SELECT
    evaluator_id, row_id,
    CASE WHEN strlen(evidence.evidence) <= {most} THEN evidence.evidence
        WHEN json_valid(evidence.evidence) THEN json_object(
            'message', left(json_extract_string(evidence.evidence, '$.message'), 2000),
            'spans', CASE WHEN strlen(json_extract(evidence.evidence, '$.spans')::VARCHAR) <= {most}
                THEN json_extract(evidence.evidence, '$.spans')
                ELSE json_array(json_extract(evidence.evidence, '$.spans[0]')) END
        ) END,
    left(evidence.error, 2000)
FROM evidence JOIN rows USING (row_id) JOIN page_cases USING (case_id)
WHERE evidence.evidence IS NOT NULL OR evidence.error IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY evaluator_id, row_id ORDER BY trial) = 1
ORDER BY row_id, evaluator_id;

-- statement: page_flips
-- Primary metrics first, and of those what got worse.
SELECT
    metric_id, model_id, originals.case_key, perturbed.case_key, original_row_id, perturbed_row_id, original_value,
    perturbed_value, direction, coalesce(perturbation, '') AS perturbation, confirmed
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

-- statement: slices
-- Slices for the page: surely worse ones first, then surely better ones, then the others that the policy counts.
SELECT slices.*
FROM slices
JOIN metrics USING (metric_id)
JOIN rules USING (metric_id)
WHERE value IS NOT NULL
ORDER BY
    CASE WHEN q_value <= 0.05 THEN CASE WHEN (difference < 0) = higher_is_better THEN 0 ELSE 1 END ELSE 2 END,
    role = 'information',
    q_value NULLS LAST,
    p_value NULLS LAST,
    CASE WHEN higher_is_better THEN difference ELSE -difference END NULLS LAST,
    metric_id, slice_column, slice_value, model_id NULLS FIRST
LIMIT {most}

-- statement: slices_table
-- Means by slice; the model is empty where all models are taken together.
SELECT {columns}
FROM slices
JOIN metrics USING (metric_id)
JOIN rules USING (metric_id)
JOIN evaluators USING (evaluator_id)
LEFT JOIN models USING (model_id)
ORDER BY slice_column, slice_value, metric_id, model_id NULLS FIRST

-- statement: turn_table
-- Scores of turns, of conversations that have several.
SELECT cases.case_key AS "case", models.model_key AS model, turn, evaluators.evaluator, metrics.metric, trial,
    turn_scores.status::VARCHAR AS status, reason, value
FROM turn_scores
JOIN metrics USING (metric_id)
JOIN evaluators USING (evaluator_id)
JOIN rows ON rows.row_id = conversation_id
JOIN cases USING (case_id)
JOIN models USING (model_id)
ORDER BY conversation_id, turn, metric_id, trial;

-- statement: step_table
-- What applications did for their answers, as they recorded it.
SELECT cases.case_key AS "case", models.model_key AS model, step.step, step.parent,
    step.turn, step.kind, step.name, step.start_ms, step.duration_ms, step.error, step.model AS asked, step.input_tokens,
    step.output_tokens, step.cost_usd
FROM (
    SELECT case_id, model_id, row_id, unnest(from_json(steps, '[{
        "step": "UINTEGER", "parent": "UINTEGER", "turn": "USMALLINT", "kind": "VARCHAR", "name": "VARCHAR", "start_ms": "DOUBLE", "duration_ms": "DOUBLE", "error": "VARCHAR",
        "model": "VARCHAR", "input_tokens": "UBIGINT", "output_tokens": "UBIGINT", "cost_usd": "DOUBLE"}]')) AS step
    FROM turns
    WHERE unit <> 'turn'
)
JOIN cases USING (case_id)
JOIN models USING (model_id)
ORDER BY row_id, step.step;
