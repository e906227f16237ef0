package mongodb

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"

	"keyfold/engine"
)

// loadChunk is how many users one find asks for: with 1536 components and some
// hundred ids about 6 MB, where a reply holds 16.
const loadChunk = 256

// Load implements [engine.Profiles].
func (s *Store) Load(ctx context.Context, users []int32) ([]*engine.Profile, error) {
	if err := ended(ctx, "load"); err != nil {
		return nil, err
	}
	found := make(map[int32]*engine.Profile, len(users))
	for chunk := range slices.Chunk(users, loadChunk) {
		if err := s.loadChunk(ctx, chunk, found); err != nil {
			return nil, err
		}
	}
	profiles := make([]*engine.Profile, len(users))
	for i, user := range users {
		profiles[i] = found[user]
	}
	return profiles, nil
}

func (s *Store) loadChunk(ctx context.Context, users []int32, found map[int32]*engine.Profile) error {
	here := make(map[int32]bool, len(users)) // a user may be asked for in two chunks
	return s.find(ctx, s.users, among(fieldUser, users), oneReply(len(users)), func(doc bson.Raw) error {
		p, err := s.codec.profile(doc)
		if err != nil {
			return err
		}
		if here[p.UserID] {
			return engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
				"user %d has several documents: keep the one with the highest version, delete the others, and run `keyfold setup`", p.UserID))
		}
		found[p.UserID], here[p.UserID] = p, true
		return nil
	})
}

// AllProfiles yields every document in the order of user ids, tombstones
// included but not that of [Store.Probe], until the first error. Each page is as of its own reading: a user
// written meanwhile comes with the old version or the new.
func (s *Store) AllProfiles(ctx context.Context) iter.Seq2[*engine.Profile, error] {
	return pages(func(after int64) (all []*engine.Profile, last int64, err error) {
		filter, how := page(fieldUser, max(after, int64(probeUser)))
		err = s.find(ctx, s.users, filter, how, func(doc bson.Raw) error {
			p, err := s.codec.profile(doc)
			if err == nil {
				all, last = append(all, p), int64(p.UserID)
			}
			return err
		})
		return all, last, err
	})
}
