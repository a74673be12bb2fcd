-- What was read of COCO files. file is -1 for the ground truth, else the number of the model.
CREATE TABLE coco_images (record UINTEGER NOT NULL, image VARCHAR NOT NULL, metadata VARCHAR NOT NULL);
CREATE TABLE coco_categories (record UINTEGER NOT NULL, category VARCHAR NOT NULL, label VARCHAR NOT NULL);
CREATE TABLE coco_found (
    file     INTEGER NOT NULL,
    record   UINTEGER NOT NULL,
    image    VARCHAR NOT NULL,
    category VARCHAR NOT NULL,
    score    VARCHAR NOT NULL,  -- ',"score":0.9' or ''
    rest     VARCHAR NOT NULL   -- the geometry as a member of an annotation's JSON, with a comma before it
);
