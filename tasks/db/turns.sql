-- Views of conversations and their turns over a dataset. Names in braces are filled in by tasks/db.

-- statement: without_turns
CREATE OR REPLACE TEMP VIEW turns AS
SELECT
    NULL::UINTEGER AS row_id, NULL::VARCHAR AS unit, NULL::UINTEGER AS conversation_id, NULL::USMALLINT AS turn,
    NULL::USMALLINT AS turns, NULL::VARCHAR AS messages, NULL::VARCHAR AS history, NULL::VARCHAR AS tool_calls,
    NULL::VARCHAR AS tools, NULL::VARCHAR AS steps, NULL::VARCHAR AS expected_tool_calls,
    NULL::VARCHAR AS expected_outcome, NULL::VARCHAR AS scenario, NULL::BLOB AS messages_digest,
    NULL::BLOB AS history_digest, NULL::BLOB AS tool_calls_digest, NULL::BLOB AS tools_digest,
    NULL::BLOB AS steps_digest, NULL::BLOB AS expected_tool_calls_digest, NULL::BLOB AS expected_outcome_digest,
    NULL::BLOB AS scenario_digest
WHERE false;

CREATE OR REPLACE TEMP VIEW all_rows AS
SELECT *, 'row' AS unit, row_id AS conversation_id, NULL::VARCHAR AS question, NULL::VARCHAR[] AS expected_answers
FROM rows;

CREATE OR REPLACE TEMP VIEW all_digests AS FROM digests;

CREATE OR REPLACE TEMP VIEW trials AS SELECT NULL::UINTEGER AS case_id, NULL::UINTEGER AS original_case_id WHERE false;

CREATE OR REPLACE TEMP VIEW turn_digests AS
SELECT
    row_id, messages_digest AS messages, history_digest AS history, tool_calls_digest AS tool_calls,
    tools_digest AS tools, steps_digest AS steps, expected_tool_calls_digest AS expected_tool_calls,
    expected_outcome_digest AS expected_outcome, scenario_digest AS scenario
FROM turns;

-- statement: views
CREATE OR REPLACE TEMP VIEW turns AS FROM read_parquet({turns});

CREATE OR REPLACE TEMP VIEW trials AS
{trials};

CREATE OR REPLACE TEMP VIEW all_rows AS
SELECT
    rows.*, coalesce(talks.unit, 'row') AS unit, row_id AS conversation_id, NULL::VARCHAR AS question,
    NULL::VARCHAR[] AS expected_answers
FROM rows
LEFT JOIN (SELECT row_id, unit FROM turns WHERE unit <> 'turn') AS talks USING (row_id)
UNION ALL BY NAME
SELECT
    row_id, case_id, model_id, actual_answer, retrieved_context, error, duration_s, cost_usd, input_tokens,
    output_tokens, '{{}}' AS metadata, NULL AS predicted_annotations, unit, conversation_id, question, expected_answers
FROM turns
WHERE unit = 'turn';

CREATE OR REPLACE TEMP VIEW all_digests AS
FROM digests
UNION ALL BY NAME
SELECT
    turns.row_id, question_digest AS question, expected_answer_digest AS expected_answer,
    retrieved_context_digest AS retrieved_context, actual_answer_digest AS actual_answer, whole.categories,
    retrieved_documents_digest AS retrieved_documents, whole.metadata
FROM turns
JOIN (SELECT row_id, categories, metadata FROM digests) AS whole ON whole.row_id = turns.conversation_id
WHERE unit = 'turn';

CREATE OR REPLACE TEMP VIEW turn_digests AS
SELECT
    row_id, messages_digest AS messages, history_digest AS history, tool_calls_digest AS tool_calls,
    tools_digest AS tools, steps_digest AS steps, expected_tool_calls_digest AS expected_tool_calls,
    expected_outcome_digest AS expected_outcome, scenario_digest AS scenario
FROM turns;

-- statement: trials
-- Cases that are another one held again: the same was said before, the same is asked first, the same is expected.
SELECT DISTINCT case_id, original_case_id
FROM (
    SELECT
        cases.case_id,
        min(cases.case_id) OVER (
            PARTITION BY
                cases.question, cases.expected_answers, cases.condition, history_digest, scenario_digest,
                expected_tool_calls_digest, expected_outcome_digest
        ) AS original_case_id
    FROM {turns} AS turns
    JOIN {cases} AS cases ON cases.case_id = turns.case_id
    WHERE unit <> 'turn'
      AND coalesce(scenario_digest, expected_tool_calls_digest, expected_outcome_digest) IS NOT NULL
)
WHERE case_id <> original_case_id
