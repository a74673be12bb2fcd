-- Digests of what evaluators read, but for those of texts, which a dataset has in a table.

-- statement: originals
-- For each answer to a copy of a case the same model's answer to the original. A copy is a case that is linked to its
-- original, or one that asks and expects the same as a case before it.
SELECT row_id, coalesce(linked.original_row_id, repeated.original_row_id) AS original_row_id
FROM (
    SELECT copy.row_id, min(original.row_id) AS original_row_id
    FROM relationships
    JOIN (SELECT row_id, case_id, model_id FROM rows) AS copy USING (case_id)
    JOIN (SELECT row_id, case_id, model_id FROM rows) AS original
        ON original.case_id = relationships.original_case_id AND original.model_id = copy.model_id
    GROUP BY copy.row_id
) AS linked
FULL JOIN (
    SELECT row_id, first_row_id AS original_row_id
    FROM (
        SELECT
            row_id,
            min(row_id) OVER (PARTITION BY model_id, question, expected_answer, condition, expected_documents)
                AS first_row_id
        FROM digests
        JOIN (SELECT row_id, model_id FROM rows) USING (row_id)
        WHERE question IS NOT NULL
    )
    WHERE row_id > first_row_id
) AS repeated USING (row_id)

-- statement: original_digests
SELECT copies.row_id, digests.actual_answer AS original_answer
FROM ({originals}) AS copies
JOIN digests ON digests.row_id = copies.original_row_id

-- statement: rival_digests
-- The digest of the other models' answers to a row's case, with whose they are, and whose the row is: a score may name
-- them. Rows without a rival have none.
SELECT
    mine.row_id,
    unhex(left(sha256(concat_ws(
        '|',
        sha256(any_value(own.model_key)),
        string_agg(sha256(rival.model_key) || hex(digests.actual_answer), '|' ORDER BY rival.model_key)
    )), 32)) AS rival_answers
FROM (SELECT row_id, case_id, model_id FROM rows) AS mine
JOIN models AS own ON own.model_id = mine.model_id
JOIN (SELECT row_id, case_id, model_id FROM rows) AS other
    ON other.case_id = mine.case_id AND other.model_id <> mine.model_id
JOIN models AS rival ON rival.model_id = other.model_id
JOIN digests ON digests.row_id = other.row_id
WHERE digests.actual_answer IS NOT NULL
GROUP BY mine.row_id

-- statement: measured_digests
-- Digests of the numbers that come with an answer, in the dataset's form of one.
SELECT
    row_id,
    unhex(left(sha256(duration_s::VARCHAR), 32)) AS duration_s,
    unhex(left(sha256(cost_usd::VARCHAR), 32)) AS cost_usd,
    unhex(left(sha256(input_tokens::VARCHAR), 32)) AS input_tokens,
    unhex(left(sha256(output_tokens::VARCHAR), 32)) AS output_tokens
FROM all_rows
