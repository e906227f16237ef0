-- Takes the rows of a table that a shop has filled by itself (here shop_interactions,
-- with the specification's columns) into keyfold's, for MySQL 8 and MariaDB:
--
--     mysql shop <import.sql
--
-- It goes in chunks of 500 rows, between which the API stores its events. What the shop
-- had published keeps its mark. The rest is left to `keyfold backfill`: a running relay
-- does not touch it. It may be run again: an id that is there, or was and is cleaned up,
-- is left alone.
--
-- occurred_at has to be UTC. The id is the digest that a publisher makes from the same
-- text, so that an event which is published by both sides is folded once.
DELIMITER //

DROP PROCEDURE IF EXISTS keyfold_import //

CREATE PROCEDURE keyfold_import()
BEGIN
    DECLARE begin_id, end_id BIGINT DEFAULT 0;
    chunks: LOOP
        SELECT MAX(id) INTO end_id
        FROM (SELECT id FROM shop_interactions WHERE id > begin_id ORDER BY id LIMIT 500) AS chunk;
        IF end_id IS NULL THEN
            LEAVE chunks;
        END IF;
        START TRANSACTION;
        INSERT INTO user_interactions
            (user_id, event_type, search_phrase, product_id, occurred_at, metadata, created_at,
             processed_to_queue, sent_at, message_id, body, shard)
        SELECT user_id, event_type, search_phrase, product_id, occurred_at, metadata, created_at,
               sent, IF(sent, created_at, NULL), message_id,
               JSON_OBJECT('user_id', user_id, 'event_type', event_type, 'search_phrase', search_phrase, 'product_id', product_id,
                           'occurred_at', at, 'metadata', metadata, 'message_id', message_id, 'version', '1.0'),
               -- 64 and more: no relay looks there.
               IF(sent, 0, 64) + ((user_id * 2654435769 & 4294967295) >> 26)
        FROM (SELECT id, user_id, CAST(event_type AS CHAR) AS event_type, search_phrase, product_id, occurred_at, created_at, at,
                     COALESCE(processed_to_queue, FALSE) AS sent,
                     -- PHP writes an empty array where there is no metadata.
                     IF(JSON_TYPE(metadata) = 'OBJECT', JSON_EXTRACT(metadata, '$'), NULL) AS metadata,
                     SHA2(CONCAT_WS('|', user_id, event_type, COALESCE(search_phrase, product_id), at), 256) AS message_id
              FROM (SELECT *, DATE_FORMAT(occurred_at, '%Y-%m-%dT%H:%i:%s+00:00') AS at
                    FROM shop_interactions WHERE id > begin_id AND id <= end_id) AS shop) AS events
        WHERE NOT EXISTS (SELECT 1 FROM keyfold_event_ids AS known
                          WHERE known.user_id = events.user_id AND known.digest = LEFT(UNHEX(SHA2(events.message_id, 256)), 16))
        ORDER BY id;
        INSERT IGNORE INTO keyfold_event_ids (user_id, digest)
        SELECT user_id, LEFT(UNHEX(SHA2(message_id, 256)), 16) FROM user_interactions WHERE registered = 0 AND message_id IS NOT NULL;
        UPDATE user_interactions SET registered = 1 WHERE registered = 0 AND message_id IS NOT NULL;
        COMMIT;
        SET begin_id = end_id;
        DO SLEEP(0.05);
    END LOOP;
END //

CALL keyfold_import() //

DROP PROCEDURE keyfold_import //

DELIMITER ;
