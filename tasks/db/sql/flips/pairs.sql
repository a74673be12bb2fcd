-- Each perturbed row with the row of its original, of the same model. A bucket is a model and a kind of perturbation;
-- where a dataset names more than 100 kinds they are no kinds, and are counted together.
CREATE OR REPLACE TEMP TABLE pairs AS
WITH links AS (
    SELECT
        case_id,
        original_case_id,
        string_agg(DISTINCT perturbation, ', ' ORDER BY perturbation) AS perturbation
    FROM relationships
    WHERE type = 'perturbation_source' AND case_id <> original_case_id
    GROUP BY case_id, original_case_id
),
named AS (
    SELECT *, CASE WHEN (SELECT count(DISTINCT perturbation) FROM links) <= 100 THEN perturbation ELSE '' END AS kind
    FROM links
)
SELECT
    (row_number() OVER () - 1)::UINTEGER AS pair_id,
    original.slot AS original_slot,
    perturbed.slot AS perturbed_slot,
    original.row_id AS original_row_id,
    perturbed.row_id AS perturbed_row_id,
    original.case_id AS original_case_id,
    perturbed.case_id AS perturbed_case_id,
    perturbed.model_id,
    perturbation,
    kind,
    (dense_rank() OVER (ORDER BY perturbed.model_id, kind) - 1)::UINTEGER AS bucket
FROM named
JOIN slots AS perturbed ON perturbed.case_id = named.case_id
JOIN slots AS original ON original.case_id = named.original_case_id AND original.model_id = perturbed.model_id
