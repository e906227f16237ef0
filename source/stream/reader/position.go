package reader

import (
	"keyfold/engine/profile"
	"keyfold/source/stream"
)

func fingerprintOf(c *stream.Chunk) profile.Fingerprint {
	return profile.Fingerprint{First: c.First, Timestamp: c.Timestamp, CRC: c.CRC}
}

// from is where a session has to subscribe: at the chunk of the fingerprint.
func from(p profile.Position) stream.Offset {
	if p.Offset == 0 && p.Chunk == (profile.Fingerprint{}) {
		return stream.First
	}
	return stream.At(p.Chunk.First)
}

// trail is the fingerprints of the chunks that a session read, from the one of its position on.
type trail []profile.Fingerprint

// at returns the position of an offset. It drops what lies before it.
func (t *trail) at(offset uint64) profile.Position {
	i := 0
	for i+1 < len(*t) && (*t)[i+1].First <= offset {
		i++
	}
	*t = (*t)[i:]
	if len(*t) == 0 {
		return profile.Position{}
	}
	return profile.Position{Offset: offset, Chunk: (*t)[0]}
}
