-- The tables of Databricks' agent evaluation, made of a run's scores. Names in braces are filled in by the task.

-- statement: rated
-- A judge that rates a row as a whole.
CREATE OR REPLACE TEMP TABLE {table} AS
SELECT
    scores.row_id,
    scores.trial,
    CASE WHEN scores.status = 'scored' THEN json_extract_string(evidence, '$.data.assessment.rating') END AS rating,
    CASE WHEN scores.status = 'scored' THEN json_extract_string(evidence, '$.data.assessment.rationale') END
        AS rationale,
    CASE WHEN scores.status = 'unscored' THEN coalesce(evidence.error, scores.reason) END AS error_message
FROM scores
LEFT JOIN evidence
    ON evidence.evaluator_id = {evaluator_id} AND evidence.row_id = scores.row_id AND evidence.trial = scores.trial
WHERE scores.metric_id = {metric_id};

-- statement: chunks
-- A judge that rates each chunk; a row that failed as a whole has its error as the only one of the list.
CREATE OR REPLACE TEMP TABLE {table} AS
SELECT
    scores.row_id,
    scores.trial,
    CAST(json_extract(evidence, '$.data.assessment.ratings') AS VARCHAR[]) AS ratings,
    CAST(json_extract(evidence, '$.data.assessment.rationales') AS VARCHAR[]) AS rationales,
    coalesce(
        CAST(json_extract(evidence, '$.data.assessment.error_messages') AS VARCHAR[]),
        CASE WHEN scores.status = 'unscored' THEN [coalesce(evidence.error, scores.reason)] END
    ) AS error_messages,
    scores.value AS precision
FROM scores
LEFT JOIN evidence
    ON evidence.evaluator_id = {evaluator_id} AND evidence.row_id = scores.row_id AND evidence.trial = scores.trial
WHERE scores.metric_id = {metric_id};

-- statement: recall
CREATE OR REPLACE TEMP TABLE {table} AS
SELECT row_id, trial, value AS document_recall FROM scores WHERE metric_id = {metric_id};

-- statement: lists
-- What was evaluated, in the evaluation set's own types.
    expected_facts,
    guidelines,
    retrieved_context,
    expected_retrieved_context

-- statement: lists_as_json
    CAST(to_json(expected_facts) AS VARCHAR) AS expected_facts,
    CAST(guidelines AS VARCHAR) AS guidelines,
    CAST(to_json(retrieved_context) AS VARCHAR) AS retrieved_context,
    CAST(to_json(expected_retrieved_context) AS VARCHAR) AS expected_retrieved_context

-- statement: rows
-- One line per row and trial: what was evaluated, the columns of every judge that ran, and the verdict over all.
CREATE OR REPLACE TEMP TABLE eval_results AS
WITH told AS (
    SELECT
        asked.row_id,
        asked.trial,
        cases.case_key AS request_id,
        models.model_key AS model,
        cases.question AS request,
        rows.actual_answer AS response,
        cases.expected_answers[1] AS expected_response,
        TRY_CAST(json_extract(told_of, '$.expected_facts') AS VARCHAR[]) AS expected_facts,
        json_extract(told_of, '$.guidelines') AS guidelines,
        list_transform(
            rows.retrieved_context, lambda chunk: struct_pack(doc_uri := chunk.doc_uri, content := chunk.content)
        ) AS retrieved_context,
        list_transform(cases.expected_documents, lambda uri: struct_pack(doc_uri := uri)) AS expected_retrieved_context,
        rows.duration_s AS "agent/latency_seconds",
        rows.input_tokens + rows.output_tokens AS "agent/total_token_count",
        rows.input_tokens AS "agent/total_input_token_count",
        rows.output_tokens AS "agent/total_output_token_count",
        {columns}
    FROM (
        SELECT DISTINCT row_id, trial FROM scores WHERE metric_id IN ({metric_ids})
    ) AS asked
    JOIN (
        SELECT
            rows.*,
            json_merge_patch(cases.metadata, rows.metadata) AS told_of
        FROM rows JOIN cases USING (case_id)
    ) AS rows USING (row_id)
    JOIN cases USING (case_id)
    JOIN models USING (model_id)
    {joins}
),
judged AS (
    SELECT *, expected_response IS NOT NULL OR len(expected_facts) > 0 AS has_ground_truth FROM told
)
SELECT
    request_id,
    model,
    trial,
    request,
    response,
    expected_response,
    {lists},
    {rating} AS "response/overall_assessment/rating",
    {root_cause} AS "response/overall_assessment/root_cause",
    {rationale} AS "response/overall_assessment/rationale",
    * EXCLUDE (
        row_id, request_id, model, trial, request, response, expected_response, expected_facts, guidelines,
        retrieved_context, expected_retrieved_context, has_ground_truth
    )
FROM judged
ORDER BY row_id, trial;

-- statement: runs
-- One line per model: shares and means over what was rated, NULL where nothing was.
CREATE OR REPLACE TEMP TABLE eval_metrics AS
SELECT
    model,
    avg(CAST("response/overall_assessment/rating" = 'yes' AS INTEGER)) AS "response/overall_assessment/rating/percentage",
    {columns},
    avg("agent/latency_seconds") AS "agent/latency_seconds/average",
    avg("agent/total_token_count") AS "agent/total_token_count/average"
FROM eval_results
GROUP BY model
ORDER BY model;
