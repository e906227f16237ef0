package mongotest

import (
	"errors"
	"reflect"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// mixed is a bulk in which operations 1, 3 and 5 fail, each in another way, and
// 4 finds nothing.
func mixed() []mongo.WriteModel {
	return []mongo.WriteModel{
		mongo.NewInsertOneModel().SetDocument(one("user_id", 10)),
		mongo.NewInsertOneModel().SetDocument(one("user_id", 1)), // duplicate
		mongo.NewUpdateOneModel().SetFilter(one("user_id", 1)).SetUpdate(bson.D{{Key: "$set", Value: one("n", 5)}}),
		mongo.NewUpdateOneModel().SetFilter(one("user_id", 2)).SetUpdate(bson.D{{Key: "$set", Value: one("user_id", 1)}}), // duplicate
		mongo.NewUpdateOneModel().SetFilter(one("user_id", 99)).SetUpdate(bson.D{{Key: "$set", Value: one("n", 5)}}),
		mongo.NewUpdateOneModel().SetFilter(one("user_id", 2)).SetUpdate(bson.D{{Key: "$inc", Value: one("text", 1)}}), // wrong type
		mongo.NewUpdateOneModel().SetFilter(one("user_id", 50)).SetUpdate(bson.D{{Key: "$set", Value: one("n", 1)}}).SetUpsert(true),
		mongo.NewDeleteOneModel().SetFilter(one("user_id", 3)),
		mongo.NewReplaceOneModel().SetFilter(one("user_id", 2)).SetReplacement(bson.D{{Key: "user_id", Value: 2}, {Key: "n", Value: 8}}),
	}
}

func prepared(t *testing.T) *mongo.Collection {
	t.Helper()
	_, c := fresh(t)
	insert(t, c, bson.D{{Key: "user_id", Value: 1}, {Key: "n", Value: 1}},
		bson.D{{Key: "user_id", Value: 2}, {Key: "n", Value: 2}, {Key: "text", Value: "a"}}, one("user_id", 3))
	return c
}

// Promise(mongodb/bulk): The result and the error of an unordered bulk are both read, by index.
func TestUnorderedBulk(t *testing.T) {
	c := prepared(t)
	res, err := c.BulkWrite(t.Context(), mixed(), options.BulkWrite().SetOrdered(false))
	failed, ok := errors.AsType[mongo.BulkWriteException](err)
	if !ok {
		t.Fatalf("%v", err)
	}
	codes := map[int]int{}
	for _, e := range failed.WriteErrors {
		codes[e.Index] = e.Code
	}
	if want := map[int]int{1: 11000, 3: 11000, 5: 14}; !reflect.DeepEqual(codes, want) {
		t.Errorf("errors by index: %v, want %v", codes, want)
	}
	if res.InsertedCount != 1 || res.MatchedCount != 2 || res.ModifiedCount != 2 || res.DeletedCount != 1 ||
		res.UpsertedCount != 1 || res.UpsertedIDs[6] == nil {
		t.Errorf("result beside the errors: %+v", res)
	}
	if stored(t, c, one("user_id", 1)) != 5 || stored(t, c, one("user_id", 2)) != 8 || stored(t, c, one("user_id", 50)) != 1 {
		t.Error("the successful operations are not all there")
	}
}

func TestOrderedBulk(t *testing.T) {
	c := prepared(t)
	res, err := c.BulkWrite(t.Context(), mixed())
	failed, ok := errors.AsType[mongo.BulkWriteException](err)
	if !ok || len(failed.WriteErrors) != 1 || failed.WriteErrors[0].Index != 1 {
		t.Fatalf("%v", err)
	}
	if res.InsertedCount != 1 || res.MatchedCount != 0 || stored(t, c, one("user_id", 1)) != 1 {
		t.Errorf("after the first failure: %+v", res)
	}
	// Within one command, too.
	res, err = c.BulkWrite(t.Context(), mixed()[2:6])
	failed, ok = errors.AsType[mongo.BulkWriteException](err)
	if !ok || len(failed.WriteErrors) != 1 || failed.WriteErrors[0].Index != 1 || res.ModifiedCount != 1 {
		t.Errorf("updates: %+v, %v", res, err)
	}
}

// Several compare-and-swaps in one command give totals only.
func TestBulkTotals(t *testing.T) {
	c := prepared(t)
	var models []mongo.WriteModel
	for _, user := range []int{1, 2, 77} {
		models = append(models, mongo.NewUpdateOneModel().
			SetFilter(bson.D{{Key: "user_id", Value: user}, {Key: "n", Value: 1}}).
			SetUpdate(bson.D{{Key: "$set", Value: one("n", 100)}}))
	}
	res, err := c.BulkWrite(t.Context(), models, options.BulkWrite().SetOrdered(false))
	if err != nil || res.MatchedCount != 1 || res.ModifiedCount != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}
