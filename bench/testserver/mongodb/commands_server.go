package mongotest

import (
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

func ping(*request) error { return nil }

func buildInfo(r *request) error {
	r.reply.text("version", serverVersion)
	list := r.reply.open("versionArray", bsoncore.TypeArray)
	for i, part := range append(strings.Split(serverVersion, "."), "0") {
		n, _ := strconv.Atoi(part)
		r.reply.number(strconv.Itoa(i), int64(n))
	}
	r.reply.close(list)
	modules := r.reply.open("modules", bsoncore.TypeArray)
	r.reply.text("0", "keyfold-mongotest")
	r.reply.close(modules)
	r.reply.number("maxBsonObjectSize", maxDocument)
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

// endTransaction answers for a transaction that was never begun.
func endTransaction(*request) error {
	return fail(codeNoSuchTransaction, "no transaction started")
}
