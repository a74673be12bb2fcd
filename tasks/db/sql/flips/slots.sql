-- The rows that take part in a pair, numbered without gaps.
CREATE OR REPLACE TEMP TABLE slots AS
SELECT row_id, case_id, model_id, (row_number() OVER () - 1)::UINTEGER AS slot
FROM rows
WHERE case_id IN (
    SELECT unnest([case_id, original_case_id])
    FROM relationships
    WHERE type = 'perturbation_source' AND case_id <> original_case_id
)
