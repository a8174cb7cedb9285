// SPDX-License-Identifier: Apache-2.0

package database

import (
	"encoding/binary"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// poolUsers is the number of goroutines that share a pool of poolSize connections.
const (
	poolSize  = 3
	poolUsers = 6
)

// sizes has the sizes of values, in bytes.
var sizes = []int{1, 1000, 64 << 10, 1 << 20}

// poolBytes is a lower bound of the bytes that the values of usePool have.
const poolBytes = poolUsers << 20

// usePool calls use from several goroutines, with the number of the goroutine and each of the sizes.
func usePool(use func(i, size int)) {
	var all sync.WaitGroup
	for i := range poolUsers {
		all.Go(func() {
			for _, size := range sizes {
				use(i, size)
			}
		})
	}
	all.Wait()
}

// content returns pseudo-random bytes.
func content(seed, size int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], uint64(seed))
	b := make([]byte, size)
	rand.NewChaCha8(key).Read(b)
	return b
}

// waitUntil calls done until it returns true. Otherwise done describes the state.
func waitUntil(t *testing.T, done func() (state string, ok bool)) {
	t.Helper()
	for end := time.Now().Add(limit); ; time.Sleep(10 * time.Millisecond) {
		state, ok := done()
		if ok {
			return
		}
		if time.Now().After(end) {
			t.Fatal(state)
		}
	}
}
