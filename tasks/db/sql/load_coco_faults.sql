-- What in one file refers to nothing, and, in the ground truth, what is there twice.
SELECT record, part, message
FROM (
    SELECT record, if($file < 0, 'annotations[].', '') AS part,
           'there is no image ' || image || ' in the ground truth' AS message
    FROM coco_found ANTI JOIN coco_images USING (image)
    WHERE file = $file
    UNION ALL
    SELECT record, if($file < 0, 'annotations[].', ''), 'there is no category ' || category || ' in the ground truth'
    FROM coco_found ANTI JOIN coco_categories USING (category)
    WHERE file = $file
    UNION ALL
    SELECT max(record), 'images[].', 'image ' || image || ' is listed a second time'
    FROM coco_images
    WHERE $file < 0
    GROUP BY image
    HAVING count(*) > 1
    UNION ALL
    SELECT max(record), 'categories[].', 'category ' || category || ' is listed a second time'
    FROM coco_categories
    WHERE $file < 0
    GROUP BY category
    HAVING count(*) > 1
)
ORDER BY record
