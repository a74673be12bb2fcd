-- What a field's content is identified by: the first 16 bytes of the SHA-256 of an unambiguous text; NULL when absent.
CREATE TEMP MACRO digest(content) AS unhex(left(sha256(content), 32));
CREATE TEMP MACRO digest_list(contents) AS if(len(contents) > 0, digest(to_json(contents)::VARCHAR), NULL);
