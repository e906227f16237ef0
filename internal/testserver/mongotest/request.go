package mongotest

import (
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

// request is one command being served.
type request struct {
	server  *Server
	store   *store
	conn    *conn
	message *message
	name    string
	db      string
	body    document
	reply   reply
	writer  writer
}

func newRequest(c *conn, m *message) *request {
	r := &request{server: c.server, store: c.server.store, conn: c, message: m, body: m.body}
	s := newScan(m.body)
	if first, ok := s.next(); ok {
		r.name = first.Key()
	}
	r.db, _ = r.field("$db").StringValueOK()
	if application, ok := bson.Raw(r.body).Lookup("client", "application", "name").StringValueOK(); ok && r.isHello() {
		c.appName = application
		c.private.Store(application == controlApp)
	}
	r.writer = writer{store: r.store, name: r.name, appName: c.appName, bypass: isTrue(r.field("bypassDocumentValidation"))}
	return r
}

func (r *request) field(key string) value { return lookup(r.body, key) }

func (r *request) isHello() bool {
	return r.name == "hello" || r.name == "isMaster" || r.name == "ismaster"
}

// namespace returns the collection that the command's own field names.
func (r *request) namespace() (string, error) {
	name, ok := r.field(r.name).StringValueOK()
	if !ok || name == "" || r.db == "" {
		return "", fail(codeInvalidNamespace, "collection name has invalid type or is empty")
	}
	return r.db + "." + name, nil
}

// optional returns a document field, {} where it is absent.
func (r *request) optional(key string) (document, error) {
	v := r.field(key)
	if v.Type == 0 || v.Type == bsoncore.TypeNull {
		return emptyDocument, nil
	}
	doc, ok := v.DocumentOK()
	if !ok {
		return nil, fail(codeTypeMismatch, "BSON field '%s.%s' is the wrong type '%s', expected type 'object'", r.name, key, v.Type)
	}
	return doc, nil
}

// number returns a numeric field, otherwise where it is absent.
func (r *request) number(key string, otherwise int64) int64 {
	if n, ok := r.field(key).AsInt64OK(); ok {
		return n
	}
	return otherwise
}

// statements returns the documents of an array field, which may travel as a
// document sequence.
func (r *request) statements(key string) ([]document, error) {
	all := r.message.sequences[key]
	if list, ok := r.field(key).ArrayOK(); ok {
		for e := range fields(list) {
			doc, ok := e.Value().DocumentOK()
			if !ok {
				return nil, fail(codeTypeMismatch, "BSON field '%s.%s' must be an array of objects", r.name, key)
			}
			all = append(all, doc)
		}
	}
	if len(all) == 0 || len(all) > maxBatch {
		return nil, fail(16, "Write batch sizes must be between 1 and %d. Got %d operations.", maxBatch, len(all))
	}
	return all, nil
}

// refuseFields refuses fields that would change what the command means and that
// this server does not know.
func (r *request) refuseFields(names ...string) error { return refuse(r.name, r.body, names...) }

func refuse(command string, doc document, names ...string) error {
	for _, name := range names {
		if v := lookup(doc, name); v.Type != 0 && v.Type != bsoncore.TypeNull {
			return fail(codeNotSupported, "mongotest: field '%s' of %s is not supported", name, command)
		}
	}
	return nil
}

// majority reports whether the command reads what a majority has.
func (r *request) majority() (bool, error) {
	concern, _ := r.field("readConcern").DocumentOK()
	switch level, _ := lookup(concern, "level").StringValueOK(); level {
	case "", "local", "available":
		return false, nil
	case "majority", "snapshot":
		return true, nil
	default:
		return false, fail(codeInvalidOptions, "mongotest: read concern '%s' is not supported", level)
	}
}
