package link

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"keyfold/engine"
	"keyfold/engine/notify"
)

// Purpose is what a token may be used for.
type Purpose string

// The purposes.
const (
	Preferences Purpose = "preferences" // see and change all of a user's preferences
	Unsubscribe Purpose = "unsubscribe" // turn one channel of a topic off and on, or one type
)

// Grant is what a token allows.
type Grant struct {
	Purpose Purpose
	User    string
	Expires engine.Millis // exclusive; a token counts in whole seconds
	// Of Unsubscribe: a topic with a channel, or, where the notification had no topic, a type.
	Topic   string
	Channel notify.Channel
	Type    notify.EventType
}

// Errors of [Keys.Read].
var (
	ErrForged  = errors.New("the token was not made by this server, or is cut off")
	ErrExpired = errors.New("the token has expired")
)

// payload is a grant as it is signed.
type payload struct {
	Purpose Purpose          `json:"p"`
	User    string           `json:"u"`
	Expires int64            `json:"x"` // Unix seconds
	Topic   string           `json:"t,omitempty"`
	Channel notify.Channel   `json:"c,omitzero"`
	Type    notify.EventType `json:"e,omitzero"`
}

const (
	minKey  = 32 // bytes
	maxKeys = 2
	maxFile = 4 << 10
	// maxToken bounds the tokens that are read. The longest user id has 128 characters of 12
	// bytes each as they stand in JSON.
	maxToken = 4 << 10
)

// Keys sign tokens: the first one signs, and all are tried on those that come.
type Keys struct{ keys [][]byte }

// NewKeys reads keys, one a line.
func NewKeys(text []byte) (*Keys, error) {
	k := &Keys{}
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			k.keys = append(k.keys, line)
		}
	}
	var faults engine.Faults
	for i, key := range k.keys {
		faults.If(len(key) < minKey, "the key in line %d has %d bytes: it needs %d, such as those of `openssl rand -base64 48`", i+1, len(key), minKey)
	}
	faults.If(len(k.keys) == 0, "there is no key in it: write one a line, such as that of `openssl rand -base64 48`")
	faults.If(len(k.keys) > maxKeys, "it has %d keys: the first signs and a second one is that from before, leave the others out", len(k.keys))
	return k, faults.Err()
}

// ReadKeys reads the keys of a file.
func ReadKeys(path string) (*Keys, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return nil, fmt.Errorf("%s is no file of keys: write one or two keys to a file, one a line", path)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	k, err := NewKeys(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return k, nil
}

var encoding = base64.RawURLEncoding.Strict()

// Token returns the token of a grant: base64url of the HMAC-SHA256 and what it signs.
func (k *Keys) Token(g Grant) string {
	signed, _ := json.Marshal(payload{ // of texts and numbers: it cannot fail
		Purpose: g.Purpose, User: g.User, Expires: int64(g.Expires) / 1000, Topic: g.Topic, Channel: g.Channel, Type: g.Type,
	})
	return encoding.EncodeToString(append(sum(k.keys[0], signed), signed...))
}

func sum(key, signed []byte) []byte {
	mac := hmac.New(sha256.New, key)
	mac.Write(signed)
	return mac.Sum(nil)
}

// Read returns what a token allows. The error is [ErrForged], or [ErrExpired] with the grant
// as it was.
func (k *Keys) Read(token string, now engine.Millis) (Grant, error) {
	if len(token) > maxToken || strings.ContainsAny(token, "\r\n") { // which the encoding ignores
		return Grant{}, ErrForged
	}
	all, err := encoding.DecodeString(token)
	if err != nil || len(all) <= sha256.Size {
		return Grant{}, ErrForged
	}
	given, signed := all[:sha256.Size], all[sha256.Size:]
	valid := false
	for _, key := range k.keys {
		valid = hmac.Equal(given, sum(key, signed)) || valid
	}
	var p payload
	if !valid || json.Unmarshal(signed, &p) != nil {
		return Grant{}, ErrForged
	}
	g := Grant{Purpose: p.Purpose, User: p.User, Expires: engine.Millis(p.Expires * 1000), Topic: p.Topic, Channel: p.Channel, Type: p.Type}
	if now >= g.Expires {
		return g, ErrExpired
	}
	return g, nil
}
