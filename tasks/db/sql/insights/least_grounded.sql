-- Per evaluator and model the sentence of an answer that the evaluator found least grounded in the retrieved context.
SELECT
    evaluator_id,
    model_id,
    arg_min(row_id, (sentence.value, row_id)) AS row_id,
    min(sentence.value) AS value,
    arg_min(sentence.sentence, (sentence.value, row_id)) AS sentence,
    arg_min(sentence.closest, (sentence.value, row_id)) AS closest
FROM (
    SELECT
        evaluator_id,
        row_id,
        from_json(
            json_extract(evidence, '$.data.least_grounded'),
            '{"sentence": "VARCHAR", "value": "DOUBLE", "closest": "VARCHAR"}'
        ) AS sentence
    FROM evidence
    WHERE contains(evidence, '"least_grounded"')
)
JOIN rows USING (row_id)
WHERE sentence.value IS NOT NULL
GROUP BY evaluator_id, model_id
ORDER BY evaluator_id, model_id
