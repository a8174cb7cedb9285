// SPDX-License-Identifier: Apache-2.0

//go:build linux

package connections

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"time"

	"purerdma/msg"
)

// Kinds of calls.
const (
	// oneWay is a message without an answer.
	oneWay = iota
	_      // a call with one reply
	// failedCall is a call that the peer answers by Message.Fail.
	failedCall
	// ignoredCall is a call that the peer frees without an answer.
	ignoredCall
	// lentCall is a call that lends memory for its time.
	lentCall
	// loanCall is a call with the token of a Loan.
	loanCall
	// streamCall is a call with several replies.
	streamCall
	callKinds
)

var kindNames = [callKinds]string{"message", "call", "failed call", "call without an answer", "call with lent memory", "call with a loan", "stream of replies"}

// Parts of the data of a call.
const (
	partRequest = iota
	partReply
	partRead  // lent memory that the peer reads
	partWrite // lent memory that the peer has written
	partOfStream
)

// maxLent is the most memory that a call lends, in bytes. Half of it is for writing.
const maxLent = 1 << 17

// callPlan describes a call. Both sides derive it from the tag of the call.
type callPlan struct {
	seed  uint64
	side  int // that calls
	tag   uint64
	kind  int
	data  int // bytes of the request or the message
	reply int // bytes of the reply and of each part
	lent  int // bytes of lent memory to read, and to write
	parts int
	pause time.Duration // before the answer
}

func (p callPlan) String() string {
	return fmt.Sprintf("%s %#x of %d bytes, with %d to lend and %d parts", kindNames[p.kind], p.tag, p.data, p.lent, p.parts)
}

// call derives the plan of a call, whose data and replies have at most a number of bytes.
func (p plan) call(side int, tag uint64, most int) callPlan {
	rng := rand.New(rand.NewPCG(p.seed, tag<<1|uint64(side)))
	c := callPlan{seed: p.seed, side: side, tag: tag, kind: rng.IntN(callKinds)}
	c.data, c.reply = rng.IntN(most+1-msg.TokenLen), rng.IntN(most+1)
	switch c.kind {
	case lentCall, loanCall:
		c.lent = min(minLent+rng.IntN(1<<rng.IntN(17)), maxLent/2)
	case streamCall:
		c.parts = rng.IntN(30)
	}
	if rng.IntN(8) == 0 {
		c.pause = time.Duration(rng.IntN(1<<rng.IntN(13))) * time.Microsecond
	}
	return c
}

// minLent is the least memory that a call lends. siw fails for shorter READs (docs/reference/driver-faults.md).
const minLent = 33

// content returns the bytes of a part of the call.
func (p callPlan) content(part uint64, n int) []byte {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], p.seed)
	binary.LittleEndian.PutUint64(key[8:], p.tag)
	binary.LittleEndian.PutUint64(key[16:], part)
	key[24] = byte(p.side)
	b := make([]byte, n)
	rand.NewChaCha8(key).Read(b)
	return b
}

// reason returns the reason of a RemoteError.
func (p callPlan) reason() string {
	if p.kind == failedCall {
		return fmt.Sprintf("call %#x of side %d", p.tag, p.side)
	}
	return ""
}
