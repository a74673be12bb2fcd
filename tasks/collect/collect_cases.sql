-- statement: cases
-- The cases of a suite, as they are put to models. repeat counts the cases before one that ask the same: each of them is
-- asked by itself, or copies of a question could not show how much a model's answers differ.
SELECT
    cases.*,
    row_number() OVER (PARTITION BY question ORDER BY case_id) - 1 AS repeat,
    coalesce(links.links, []) AS links,
    coalesce(held.recordings, []) AS recordings
FROM {cases} AS cases
LEFT JOIN (
    SELECT case_id, list({{'target': originals.case_key, 'perturbation': perturbation}} ORDER BY original_case_id) AS links
    FROM relationships
    JOIN (SELECT case_id AS original_case_id, case_key FROM cases) AS originals USING (original_case_id)
    GROUP BY case_id
) AS links USING (case_id)
LEFT JOIN (
    SELECT case_key, list(recording ORDER BY place) AS recordings
    FROM {recordings}
    GROUP BY case_key
) AS held USING (case_key)
ORDER BY case_id

-- statement: chosen
(FROM cases WHERE case_key IN (SELECT unnest($keys)))

-- statement: held
-- The conversations that a dataset has of its cases, as the recordings of a suite.
(
    SELECT
        case_key, row_id AS place, json_object(
            'messages', messages::JSON, 'tools', tools::JSON, 'expected_tool_calls', expected_tool_calls::JSON,
            'expected_outcome', expected_outcome, 'scenario', scenario::JSON
        ) AS recording
    FROM (SELECT * FROM turns WHERE unit <> 'turn') AS turns
    JOIN rows USING (row_id) JOIN cases ON cases.case_id = rows.case_id
    WHERE case_key IN (SELECT unnest($keys))
)
