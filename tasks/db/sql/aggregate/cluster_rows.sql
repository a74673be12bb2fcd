-- The rows of cases that have perturbed copies, numbered so that a number stands for one original and one model.
CREATE OR REPLACE TEMP TABLE cluster_rows AS
SELECT row_id, (family * (SELECT max(model_id)::BIGINT + 1 FROM rows) + model_id)::UBIGINT AS cluster, model_id
FROM rows
JOIN families USING (case_id)
