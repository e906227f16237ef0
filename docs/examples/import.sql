-- Takes the rows of a table that a shop has filled by itself (here shop_interactions,
-- with the specification's columns) into keyfold's, for MySQL 8 and MariaDB. What the
-- shop had published keeps its mark; the rest is for `keyfold backfill`. It may be run
-- again: an id that is there is left alone.
--
-- occurred_at has to be UTC. The id is the digest that a publisher makes from the same
-- text, so that an event which is published by both sides is folded once.
INSERT INTO user_interactions
    (user_id, event_type, search_phrase, product_id, occurred_at, metadata, created_at, processed_to_queue, message_id, body, shard)
SELECT user_id, event_type, search_phrase, product_id, occurred_at, metadata, created_at, processed_to_queue, message_id,
       JSON_OBJECT('user_id', user_id, 'event_type', event_type, 'search_phrase', search_phrase, 'product_id', product_id,
                   'occurred_at', at, 'metadata', metadata, 'message_id', message_id, 'version', '1.0'),
       (user_id * 2654435769 & 4294967295) >> 26
FROM (SELECT id, user_id, CAST(event_type AS CHAR) AS event_type, search_phrase, product_id, occurred_at, created_at, processed_to_queue, at,
             -- PHP writes an empty array where there is no metadata.
             IF(JSON_TYPE(metadata) = 'OBJECT', JSON_EXTRACT(metadata, '$'), NULL) AS metadata,
             SHA2(CONCAT_WS('|', user_id, event_type, COALESCE(search_phrase, product_id), at), 256) AS message_id
      FROM (SELECT *, DATE_FORMAT(occurred_at, '%Y-%m-%dT%H:%i:%s+00:00') AS at FROM shop_interactions) AS shop) AS events
ORDER BY id
ON DUPLICATE KEY UPDATE user_interactions.shard = user_interactions.shard
