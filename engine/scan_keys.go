package engine

import (
	"bytes"
	"hash/maphash"
)

// fewKeys is how many keys are compared one by one, which for a handful is
// faster than hashing and allocates nothing.
const fewKeys = 16

// keySeed makes the hashes of keys unforeseeable, so that nobody can send a body
// of colliding ones.
var keySeed = maphash.MakeSeed()

// keySet holds the keys of the objects that are open. The first [fewKeys] of
// them lie in an array, the innermost object's last; all others are hashed, and
// stay when their object closes: its offset tells them from those of others.
type keySet struct {
	few   [fewKeys][]byte
	count uint8 // of few
	many  map[keyHash][]byte
}

type keyHash struct {
	object int32 // offset of its bracket
	probe  int32 // above 0 for keys whose hash was taken
	hash   uint64
}

// add adds a key of the innermost object, and returns false if it is there.
func (k *keySet) add(object *level, name []byte) bool {
	for _, own := range k.few[object.keys:k.count] {
		if bytes.Equal(own, name) {
			return false
		}
	}
	if k.count < fewKeys {
		k.few[k.count] = name
		k.count++
		return true
	}
	return k.addHashed(object, name)
}

func (k *keySet) addHashed(object *level, name []byte) bool {
	if k.many == nil {
		k.many = make(map[keyHash][]byte, 4*fewKeys)
	}
	h := keyHash{object: object.opened, hash: maphash.Bytes(keySeed, name)}
	for ; ; h.probe++ {
		other, taken := k.many[h]
		if !taken {
			k.many[h] = name
			return true
		}
		if bytes.Equal(other, name) {
			return false
		}
	}
}
