package mongodb

import (
	"context"
	"fmt"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Durability says whose promise it is that an acknowledged write survives a crash, where the
// server speaks MongoDB's protocol and is no mongod or mongos; "" where it is one. Such
// servers accept the write concern {w: "majority", j: true} and go by settings of their own:
// see docs/MONGODB.md. A server that refuses the question is taken for none of MongoDB's.
func (s *Store) Durability(ctx context.Context) (notice string, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	info, err := s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Raw()
	if err != nil && len(mongo.ErrorCodes(err)) == 0 {
		return "", mark("ask what server it is", err)
	}
	// The allocator is in the answer of each mongod and mongos, and of no other server known.
	if _, own := info.Lookup("allocator").StringValueOK(); err == nil && own {
		return "", nil
	}
	return fmt.Sprintf("%s speaks MongoDB's protocol and is no mongod: it takes the write concern majority with journal, and its own settings "+
		"decide whether an acknowledged write survives a crash (PostgreSQL: synchronous_commit = on); see docs/MONGODB.md", kindOfServer(info)), nil
}

// kindOfServer names a server by what it says of itself.
func kindOfServer(info bson.Raw) string {
	elements, err := info.Elements()
	if err != nil {
		return "the server"
	}
	for _, e := range elements {
		if key := e.Key(); strings.Contains(strings.ToLower(key), "ferretdb") {
			return "the server (FerretDB)"
		}
	}
	return "the server"
}
