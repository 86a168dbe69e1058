package env

import (
	"crypto/rand"
	"encoding/binary"
	mrand "math/rand/v2"
	"sync"
)

// Rand is a source of random numbers; it may be used from several goroutines
// at once.
type Rand interface {
	// Uint64 returns 64 random bits.
	Uint64() uint64
}

// SystemRand returns the kernel's generator: nobody outside can guess it.
func SystemRand() Rand { return systemRand{} }

type systemRand struct{}

func (systemRand) Uint64() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return binary.BigEndian.Uint64(b[:])
}

// NewRand returns a generator whose numbers follow from seed, for tests that
// must be repeatable.
func NewRand(seed uint64) Rand { return &seededRand{r: mrand.New(mrand.NewPCG(seed, seed))} }

type seededRand struct {
	mu sync.Mutex
	r  *mrand.Rand
}

func (s *seededRand) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.r.Uint64()
}
