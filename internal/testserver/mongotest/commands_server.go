package mongotest

import "go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

func ping(*request) error { return nil }

// buildInfo says by its module that this is no mongod, and has what tells one of MongoDB's own
// servers from others: the stand-in's journal keeps what it acknowledges.
func buildInfo(r *request) error {
	r.reply.text("version", serverVersion)
	r.reply.text("allocator", "system")
	modules := r.reply.open("modules", bsoncore.TypeArray)
	r.reply.text("0", "keyfold-mongotest")
	r.reply.close(modules)
	return nil
}

func endSessions(r *request) error {
	list, _ := r.field("endSessions").ArrayOK()
	for e := range fields(list) {
		if id, ok := e.Value().DocumentOK(); ok {
			r.store.sessions.end(id)
		}
	}
	return nil
}
