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
	info, refused, err := s.buildInfo(ctx)
	if err != nil {
		return "", err
	}
	// The allocator is in the answer of each mongod and mongos, and of no other server known.
	if _, own := info.Lookup("allocator").StringValueOK(); !refused && own {
		return "", nil
	}
	return fmt.Sprintf("%s speaks MongoDB's protocol and is no mongod: it takes the write concern majority with journal, and its own settings "+
		"decide whether an acknowledged write survives a crash (PostgreSQL: synchronous_commit = on); see docs/MONGODB.md", kindOfServer(info)), nil
}

// buildInfo returns what the server says of itself, unless it refuses to.
func (s *Store) buildInfo(ctx context.Context) (info bson.Raw, refused bool, err error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	info, err = s.client.Database("admin").RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Raw()
	if err != nil && len(mongo.ErrorCodes(err)) == 0 {
		return nil, false, mark("ask what server it is", err)
	}
	return info, err != nil, nil
}

// Version returns that of the server, "" where it does not say.
func (s *Store) Version(ctx context.Context) (string, error) {
	info, _, err := s.buildInfo(ctx)
	version, _ := info.Lookup("version").StringValueOK()
	return version, err
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
