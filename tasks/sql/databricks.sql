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

-- statement: rows
-- One line per row and trial, with the columns of every judge that ran.
CREATE OR REPLACE TEMP TABLE eval_results AS
SELECT
    cases.case_key AS request_id,
    models.model_key AS model,
    asked.trial,
    cases.question AS request,
    rows.actual_answer AS response,
    {columns}
FROM (
    SELECT DISTINCT row_id, trial FROM scores WHERE metric_id IN ({metric_ids})
) AS asked
JOIN rows USING (row_id)
JOIN cases USING (case_id)
JOIN models USING (model_id)
{joins}
ORDER BY asked.row_id, asked.trial;

-- statement: runs
-- One line per model: shares and means over what was rated, NULL where nothing was.
CREATE OR REPLACE TEMP TABLE eval_metrics AS
SELECT model, {columns} FROM eval_results GROUP BY model ORDER BY model;
