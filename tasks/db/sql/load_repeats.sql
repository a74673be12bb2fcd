-- Cases without a key of their own that one model answered several times: every time after the first is a case
-- of its own, numbered, so that no answer is lost.

CREATE TABLE repeats AS
SELECT row_id, case_seq, case_key || '-' || nth AS case_key
FROM (
    SELECT row_id, case_seq, case_key, row_number() OVER (PARTITION BY case_key, model_id ORDER BY row_id) AS nth
    FROM staged_rows
    WHERE derived
)
WHERE nth > 1;

UPDATE staged_rows SET case_key = repeats.case_key FROM repeats WHERE staged_rows.row_id = repeats.row_id;
UPDATE staged_cases SET case_key = repeats.case_key FROM repeats WHERE staged_cases.seq = repeats.case_seq;
