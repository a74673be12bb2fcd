-- The models of a side that took part in its run, or all where nothing was scored.
SELECT model_id, model_key, name, version
FROM {side}.models
WHERE model_id IN (SELECT model_id FROM {side}.aggregates) OR NOT EXISTS (FROM {side}.aggregates)
ORDER BY model_id
