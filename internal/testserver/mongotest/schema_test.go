package mongotest

import (
	"errors"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"

	"keyfold/internal/testserver/must"
)

const profileSchema = `{"$jsonSchema": {
	"bsonType": "object",
	"anyOf": [
		{"required": ["user_id", "embedding", "version"], "not": {"required": ["erased_at"]}, "properties": {
			"embedding": {"bsonType": "array", "minItems": 3, "maxItems": 3, "items": {"bsonType": "double"}}}},
		{"required": ["user_id", "version", "erased_at"], "not": {"anyOf": [{"required": ["embedding"]}]}}
	],
	"properties": {
		"user_id": {"bsonType": "int", "description": "who"},
		"version": {"bsonType": "int", "minimum": 1},
		"count": {"bsonType": "int", "minimum": 0},
		"kind": {"enum": ["view", "click"]},
		"name": {"bsonType": ["string", "null"]},
		"list": {"items": {"bsonType": "double"}},
		"mixed": {"items": {"bsonType": ["int", "string"]}},
		"erased_at": {"bsonType": "date"}
	}
}}`

func fromJSON(t testing.TB, text string) bson.D {
	t.Helper()
	var d bson.D
	must.OK(t, bson.UnmarshalExtJSON([]byte(text), false, &d))
	return d
}

func TestSchema(t *testing.T) {
	raw, err := bson.Marshal(fromJSON(t, profileSchema))
	must.OK(t, err)
	f, err := parseFilter(raw)
	must.OK(t, err)
	for _, tc := range []struct {
		doc string
		ok  bool
	}{
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5]}`, true},
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5], "more": {"x": 1}}`, true},
		{`{"user_id": 1, "version": 1, "erased_at": {"$date": "2026-01-01T00:00:00Z"}}`, true},
		{`{"user_id": 1, "version": 1, "erased_at": {"$date": "2026-01-01T00:00:00Z"}, "embedding": [1.5, 2.5, 0.5]}`, false}, // both
		{`{"user_id": 1, "version": 1}`, false},                                                                               // neither
		{`{"user_id": {"$numberLong": "1"}, "version": 1, "embedding": [1.5, 2.5, 0.5]}`, false},                              // long
		{`{"user_id": 1, "version": 0, "embedding": [1.5, 2.5, 0.5]}`, false},                                                 // minimum
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5]}`, false},                                                      // short
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5, 0.5]}`, false},                                            // long
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2, 0.5]}`, false},                                                   // an int
		{`{"user_id": 1, "version": 1, "embedding": "abc"}`, false},
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5], "list": [], "mixed": [1, "a"]}`, true},
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5], "list": [1.5, 2]}`, false},
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5], "mixed": [1, 2.5]}`, false},
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5], "kind": "view", "name": null, "count": 9}`, true},
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5], "kind": "buy"}`, false},
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5], "name": 5}`, false},
		{`{"user_id": 1, "version": 1, "embedding": [1.5, 2.5, 0.5], "count": -1}`, false},
	} {
		doc, err := bson.Marshal(fromJSON(t, tc.doc))
		must.OK(t, err)
		if f.matches(doc) != tc.ok {
			t.Errorf("%s: %v", tc.doc, !tc.ok)
		}
	}
}

func TestValidator(t *testing.T) {
	s := Start(t)
	db := connect(t, s.URI()).Database("shop")
	ctx := t.Context()
	must.OK(t, db.CreateCollection(ctx, "users", options.CreateCollection().SetValidator(fromJSON(t,
		`{"$jsonSchema": {"required": ["user_id", "n"], "properties": {"n": {"bsonType": "int", "minimum": 1}}}}`))))
	c := db.Collection("users")
	insert(t, c, bson.D{{Key: "_id", Value: 7}, {Key: "user_id", Value: 1}, {Key: "n", Value: 1}})

	_, err := c.UpdateOne(ctx, one("user_id", 1), bson.D{{Key: "$set", Value: one("n", 0)}})
	w, ok := errors.AsType[mongo.WriteException](err)
	if !ok || len(w.WriteErrors) != 1 || w.WriteErrors[0].Code != 121 || w.WriteErrors[0].Message != "Document failed validation" {
		t.Fatalf("%v", err)
	}
	if _, err := c.InsertOne(ctx, one("user_id", 2)); !isCode(err, codeValidation) {
		t.Errorf("a missing field: %v", err)
	}
	if stored(t, c, one("user_id", 1)) != 1 {
		t.Error("a refused update changed the document")
	}
	bypass := options.InsertOne().SetBypassDocumentValidation(true)
	if _, err := c.InsertOne(ctx, one("user_id", 3), bypass); err != nil {
		t.Errorf("with bypass: %v", err)
	}

	for i, rule := range []bson.D{fromJSON(t, `{"$jsonSchema": {"required": ["n"]}}`), {}} { // 3 has no n
		must.OK(t, db.RunCommand(ctx, bson.D{{Key: "collMod", Value: "users"}, {Key: "validator", Value: rule}, {Key: "validationAction", Value: "error"}}).Err())
		_, err := c.UpdateOne(ctx, one("user_id", 3), bson.D{{Key: "$inc", Value: one("x", 1)}})
		if (err == nil) != (i == 1) {
			t.Errorf("after %v: %v", rule, err)
		}
	}
	err = db.RunCommand(ctx, bson.D{{Key: "collMod", Value: "users"}, {Key: "validator", Value: fromJSON(t, `{"$jsonSchema": {"patternProperties": {}}}`)}}).Err()
	if !isCode(err, codeFailedToParse) {
		t.Errorf("an unknown keyword: %v", err)
	}
	cursor, err := db.ListCollections(ctx, one("name", "users"))
	must.OK(t, err)
	var listed []bson.Raw
	must.OK(t, cursor.All(ctx, &listed))
	if len(listed) != 1 || listed[0].Lookup("options", "validationAction").StringValue() != "error" {
		t.Errorf("listed: %v", listed)
	}
}
