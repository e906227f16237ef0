package mongotest

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"
)

func create(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	if err := r.refuseFields("capped", "timeseries", "viewOn", "clusteredIndex", "expireAfterSeconds", "collation"); err != nil {
		return err
	}
	if r.store.collection(namespace) != nil {
		return fail(codeNamespaceExists, "Collection %s already exists.", namespace)
	}
	return r.store.configure(namespace, r.options())
}

// options returns the validation that the command asks for.
func (r *request) options() document {
	d := bsoncore.NewDocumentBuilder()
	for _, name := range []string{"validator", "validationLevel", "validationAction"} {
		if v := r.field(name); v.Type != 0 && !r.store.noValidators {
			d.AppendValue(name, v)
		}
	}
	return d.Build()
}

func collMod(r *request) error {
	c, err := r.existing()
	if err != nil {
		return err
	}
	if err := r.refuseFields("index", "viewOn", "expireAfterSeconds", "cappedSize"); err != nil {
		return err
	}
	return r.store.configure(c.namespace, r.options())
}

// existing returns the collection the command is about, which must be there.
func (r *request) existing() (*collection, error) {
	namespace, err := r.namespace()
	if err != nil {
		return nil, err
	}
	c := r.store.collection(namespace)
	if c == nil {
		return nil, fail(codeNamespaceNotFound, "ns does not exist: %s", namespace)
	}
	return c, nil
}

func drop(r *request) error {
	namespace, err := r.namespace()
	if err != nil {
		return err
	}
	r.store.drop(namespace)
	return nil
}

// renameCollection renames within a database, which moves no document.
func renameCollection(r *request) error {
	if r.db != "admin" {
		return fail(codeUnauthorized, "renameCollection may only be run against the admin database.")
	}
	from, _ := r.field("renameCollection").StringValueOK()
	to, _ := r.field("to").StringValueOK()
	fromDB, _, _ := strings.Cut(from, ".")
	if toDB, _, ok := strings.Cut(to, "."); !ok || fromDB != toDB {
		return fail(codeInvalidOptions, "mongotest: rename %q within its database, not to %q", from, to)
	}
	switch {
	case isTrue(r.field("dropTarget")):
		return fail(codeInvalidOptions, "mongotest: dropTarget is not supported")
	case r.store.collection(from) == nil:
		return fail(codeNamespaceNotFound, "Source collection %s does not exist", from)
	case r.store.collection(to) != nil:
		return fail(codeNamespaceExists, "target namespace exists")
	}
	r.store.rename(from, to)
	return nil
}

func dropDatabase(r *request) error {
	for _, c := range r.store.database(r.db) {
		r.store.drop(c.namespace)
	}
	return nil
}

func listCollections(r *request) error {
	query, err := r.optional("filter")
	if err != nil {
		return err
	}
	f, err := parseFilter(query)
	if err != nil {
		return err
	}
	var docs []document
	for _, c := range r.store.database(r.db) {
		if doc := c.describe(); f.matches(doc) {
			docs = append(docs, doc)
		}
	}
	return r.answerCursor(r.db+".$cmd.listCollections", docs)
}

// describe returns the collection as listCollections shows it.
func (c *collection) describe() document {
	_, name, _ := strings.Cut(c.namespace, ".")
	return bsoncore.NewDocumentBuilder().AppendString("name", name).AppendString("type", "collection").
		AppendDocument("options", c.options).AppendDocument("idIndex", c.indexes[0].spec()).Build()
}
