package mongotest

import (
	"slices"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// WithMongos makes the server show itself as the mongos of a sharded cluster: it
// knows enableSharding, shardCollection and config.collections, refuses a write to one
// document of a sharded collection that names neither the shard key nor the _id, as servers
// before 7.0 do, and counts the operations that a mongos would send to every shard
// ([Stats].Broadcasts). There are no shards: nothing is split, moved or routed. A journal
// does not keep which collections are sharded.
func WithMongos() Option { return func(s *settings) { s.mongos = true } }

// configCollections is where a mongos shows which collections are sharded.
const configCollections = "config.collections"

func enableSharding(r *request) error {
	if !r.store.mongos || r.db != "admin" {
		return fail(codeCommandNotFound, "no such command: '%s'", r.name)
	}
	return nil
}

// shardCollection shards a collection by one field. As in a server, a unique index goes with
// a shard key on the same field, also with a hashed one (a document's shard depends on that field
// alone), and the command repeated with the same key changes nothing.
func shardCollection(r *request) error {
	if err := enableSharding(r); err != nil {
		return err
	}
	namespace, _ := r.field(r.name).StringValueOK()
	key, err := r.optional("key")
	if err != nil {
		return err
	}
	start, spec := bsoncore.AppendDocumentStart(nil)
	spec = bsoncore.AppendDocumentElement(spec, "key", key)
	spec = bsoncore.AppendStringElement(spec, "name", "shard_key")
	wanted, err := parseIndex(endDocument(spec, start))
	if err != nil {
		return err
	}
	c := r.store.ensure(namespace)
	if c.shardKey != nil {
		if !slices.Equal(c.shardKey, key) {
			return fail(codeAlreadyInitialized, "sharding already enabled for collection %s with key %s", namespace, c.shardKey)
		}
		return nil
	}
	if err := c.admitShardKey(wanted, isTrue(r.field("unique"))); err != nil {
		return err
	}
	c.shardField, c.shardKey = wanted.field, slices.Clone(key)
	r.reply.text("collectionsharded", namespace)
	return nil
}

// admitShardKey refuses a shard key that a server refuses.
func (c *collection) admitShardKey(key *index, unique bool) error {
	if unique && key.hashed() {
		return fail(codeInvalidOptions, "Hashed shard keys cannot be declared unique. It's possible to ensure uniqueness on the "+
			"hashed field by declaring an additional (non-hashed) unique index on the field.")
	}
	supported := !slices.ContainsFunc(c.rows, func(r *record) bool { return r != nil })
	for _, x := range c.indexes {
		if x.unique && x.field != key.field && x.field != "_id" {
			return fail(codeInvalidOptions, "can't shard collection '%s' with unique index on %s and proposed shard key %s. "+
				"Uniqueness can't be maintained unless shard key is a prefix", c.namespace, x.spec(), key.spec())
		}
		if x.field == key.field && compare(x.direction, key.direction) == 0 {
			supported = x.unique || !unique
		}
	}
	if !supported {
		return fail(codeInvalidOptions, "Please create an index that starts with the proposed shard key before sharding the collection")
	}
	return nil
}

func (x *index) hashed() bool { return x.direction.Type == bsoncore.TypeString }

// shardedCollections returns what a find in config.collections reads.
func (s *store) shardedCollections() *collection {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := newCollection(s, configCollections)
	for namespace, c := range s.collections {
		if c.shardKey == nil {
			continue
		}
		r := &record{raw: bsoncore.NewDocumentBuilder().AppendString("_id", namespace).AppendDocument("key", c.shardKey).Build()}
		all.rows = append(all.rows, r)
		all.indexes[0].move(r, nil, r.raw)
	}
	return all
}

// targeted reports whether a mongos sends the command to the shards that own the values
// its filter names, and counts it as a broadcast otherwise.
func (c *collection) targeted(command string, query document, f *filter) bool {
	if c == nil || c.shardKey == nil || slices.ContainsFunc(f.equals, func(e equality) bool { return e.field == c.shardField }) {
		return true
	}
	_, name, _ := strings.Cut(c.namespace, ".")
	var by []string
	for e := range fields(query) {
		by = append(by, e.Key())
	}
	c.store.counters.broadcast(command + " " + name + " by (" + strings.Join(by, ", ") + ")")
	return false
}

// requireTarget refuses a write to one document that a mongos cannot route.
func (c *collection) requireTarget(command string, statement document, f *filter) error {
	query, _ := lookup(statement, "q").DocumentOK()
	if c.targeted(command, query, f) {
		return nil
	}
	switch {
	case isTrue(lookup(statement, "upsert")):
		return fail(codeShardKeyNotFound, "Failed to target upsert by query :: could not extract exact shard key")
	case !slices.ContainsFunc(f.equals, func(e equality) bool { return e.field == "_id" }):
		return fail(codeInvalidOptions, "A write to one document of a sharded collection must contain an exact match on _id or the shard key")
	}
	return nil
}
