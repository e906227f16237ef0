package mongodb

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/x/bsonx/bsoncore"

	"keyfold/engine"
	"keyfold/engine/profile"
)

// loadChunk is how many users one find asks for: with 1536 components and some
// hundred ids about 6 MB, where a reply holds 16.
const loadChunk = 256

// Load implements [profile.Profiles].
func (s *Store) Load(ctx context.Context, users []int32) ([]*profile.Profile, error) {
	if err := ended(ctx, "load"); err != nil {
		return nil, err
	}
	found, unfit := make(map[int32]*profile.Profile, len(users)), map[int32]error{}
	for chunk := range slices.Chunk(users, loadChunk) {
		if err := s.loadChunk(ctx, chunk, found, unfit); err != nil {
			return nil, err
		}
	}
	profiles := make([]*profile.Profile, len(users))
	for i, user := range users {
		if unfit[user] == nil {
			profiles[i] = found[user]
		}
	}
	if len(unfit) > 0 {
		return profiles, &engine.UnreadableError{Users: unfit}
	}
	return profiles, nil
}

// loadChunk reads users' documents into found, and why some cannot be used into
// unfit. A document that does not say whose it is belongs to one of those it was
// found for: they are asked for in halves until it is clear.
func (s *Store) loadChunk(ctx context.Context, users []int32, found map[int32]*profile.Profile, unfit map[int32]error) error {
	here := make(map[int32]bool, len(users)) // a user may be asked for in two chunks
	var unnamed error
	asked, marked := slices.Concat(users, []int32{probeUser}), false
	err := s.find(ctx, s.users, among(fieldUser, asked), oneReply(len(asked)), func(doc bson.Raw) error {
		p, err := s.codec.profile(doc)
		if err != nil {
			if user, ok := userOf(doc); ok {
				unfit[user] = err
			} else {
				unnamed = err
			}
			return nil
		}
		user := p.UserID
		if user == probeUser {
			marked = true
			return nil
		}
		if here[user] {
			unfit[user] = engine.ConfigurationError(reasonNotSetUp, fmt.Errorf(
				"user %d has several documents: keep the one with the highest version, delete the others, and run %s", user, setupCommand))
		}
		found[user], here[user] = p, true
		return nil
	})
	if err == nil && !marked {
		s.guard.missing()
	}
	switch {
	case err != nil || unnamed == nil:
		return err
	case len(users) == 1:
		unfit[users[0]] = fmt.Errorf("user %d: %w", users[0], unnamed)
		return nil
	}
	middle := len(users) / 2
	if err := s.loadChunk(ctx, users[:middle], found, unfit); err != nil {
		return err
	}
	return s.loadChunk(ctx, users[middle:], found, unfit)
}

// userOf returns whose document it is, as far as that can be read.
func userOf(doc bson.Raw) (user int32, ok bool) {
	err := readInt32(bsoncore.Document(doc).Lookup(fieldUser), &user)
	return user, err == nil
}

// AllProfiles yields every document in the order of user ids, tombstones
// included but not that of [Store.Probe], until the first error. Each page is as of its own reading: a user
// written meanwhile comes with the old version or the new.
func (s *Store) AllProfiles(ctx context.Context) iter.Seq2[*profile.Profile, error] {
	return s.ProfilesAbove(ctx, probeUser)
}

// ProfilesAbove yields the documents of users with higher ids, as [Store.AllProfiles] does.
func (s *Store) ProfilesAbove(ctx context.Context, user int32) iter.Seq2[*profile.Profile, error] {
	return inOrder(ctx, s, s.users, fieldUser, int64(user), func(doc bson.Raw) (*profile.Profile, int64, error) {
		p, err := s.codec.profile(doc)
		if err != nil {
			return nil, 0, err
		}
		return p, int64(p.UserID), nil
	})
}
