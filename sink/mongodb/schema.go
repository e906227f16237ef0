package mongodb

import (
	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine/profile"
)

// validator is the rule for user_embeddings: a profile with vectors of this many
// components, or a tombstone. keyfold's own fields are typed and not required,
// so that documents of an earlier worker stay valid.
func validator(dimensions int) bson.D {
	return bson.D{{Key: "$jsonSchema", Value: bson.D{
		{Key: "bsonType", Value: "object"},
		{Key: "required", Value: bson.A{fieldUser}},
		{Key: "properties", Value: bson.D{
			{Key: fieldUser, Value: typed("int", "User ID (references the SQL users table)")},
			{Key: fieldVersion, Value: bson.D{
				{Key: "bsonType", Value: "int"},
				{Key: "minimum", Value: int32(1)},
				{Key: "description", Value: "Optimistic locking: one more with every write"},
			}},
		}},
		{Key: "anyOf", Value: bson.A{profileRule(dimensions), tombstoneRule()}},
	}}}
}

func profileRule(dimensions int) bson.D {
	n := int32(dimensions)
	return bson.D{
		{Key: "required", Value: bson.A{fieldEmbedding, fieldDimensions, fieldUpdated}},
		{Key: "not", Value: bson.D{{Key: "required", Value: bson.A{fieldErased}}}},
		{Key: "properties", Value: bson.D{
			{Key: fieldEmbedding, Value: vectorRule(n, "Unit vector")},
			{Key: fieldDimensions, Value: bson.D{{Key: "bsonType", Value: "int"}, {Key: "enum", Value: bson.A{n}}}},
			{Key: fieldUpdated, Value: typed("date", "Time of the newest event")},
			{Key: fieldEventCount, Value: bson.D{
				{Key: "bsonType", Value: bson.A{"int", "long"}},
				{Key: "minimum", Value: int32(0)},
				{Key: "description", Value: "Folded events; a long above the range of an int"},
			}},
			// A pattern and no list: a setup that knows fewer types of the shop's must not have
			// running workers' writes refused.
			{Key: fieldLastType, Value: bson.D{{Key: "bsonType", Value: "string"}, {Key: "pattern", Value: profile.TypeNamePattern}}},
			{Key: fieldMass, Value: bson.D{{Key: "bsonType", Value: "double"}, {Key: "minimum", Value: int32(0)}}},
			{Key: fieldHistory, Value: typed("string", "How the mass is kept: mass or unit")},
			{Key: fieldModel, Value: typed("string", "What made the vectors; empty is the configured model")},
			{Key: fieldLastID, Value: typed("string", "Message id of the newest event")},
			{Key: fieldApplied, Value: typed("binData", "Ids of folded events, in one group per write")},
			{Key: fieldFloor, Value: bson.D{{Key: "bsonType", Value: bson.A{"date", "null"}}}},
			{Key: fieldMarks, Value: typed("binData", "Which events of which streams are folded")},
			{Key: fieldWriteID, Value: typed("objectId", "Which bulk wrote this version")},
			{Key: fieldShort, Value: vectorRule(n, "Unit vector of a shorter half-life")},
			{Key: fieldShortMass, Value: bson.D{{Key: "bsonType", Value: "double"}, {Key: "minimum", Value: int32(0)}}},
			{Key: fieldShortHalfLife, Value: typed("int", "Half-life of embedding_short, in seconds")},
			{Key: fieldShortVersion, Value: typed("int", "The version that embedding_short is of: valid where it is the document's")},
		}},
	}
}

// vectorRule admits both formats, whatever this process writes: a setup with another
// setting must not have the running workers' writes refused.
func vectorRule(n int32, description string) bson.D {
	return bson.D{
		{Key: "bsonType", Value: bson.A{"array", "binData"}},
		{Key: "minItems", Value: n},
		{Key: "maxItems", Value: n},
		{Key: "items", Value: bson.D{{Key: "bsonType", Value: "double"}}},
		{Key: "description", Value: description + ": an array, or a binary of doubles, little-endian"},
	}
}

// tombstoneRule admits {user_id, version, erased_at}. It forbids the
// profile's fields by name and no others: another program may add some, which the sweep
// removes later.
func tombstoneRule() bson.D {
	gone := bson.A{}
	for _, field := range profileFields {
		gone = append(gone, bson.D{{Key: "required", Value: bson.A{field.Key}}})
	}
	return bson.D{
		{Key: "required", Value: bson.A{fieldVersion, fieldErased}},
		{Key: "properties", Value: bson.D{{Key: fieldErased, Value: typed("date", "When the user was erased")}}},
		{Key: "not", Value: bson.D{{Key: "anyOf", Value: gone}}},
	}
}

func typed(bsonType, description string) bson.D {
	return bson.D{{Key: "bsonType", Value: bsonType}, {Key: "description", Value: description}}
}
