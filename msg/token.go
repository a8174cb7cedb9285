// SPDX-License-Identifier: Apache-2.0

package msg

import (
	"fmt"
	"syscall"

	"purerdma/verbs"
)

// Token names lent memory of the peer, with its rights. The peer gets it from Loan.Token or with a request
// (Message.Lent), and it can travel over any channel. Only the connection for which the memory was lent can
// use it. A Token is a capability: see verbs.RemoteMemory.
//
// The encoding has TokenLen bytes. It is the encoding of the memory with the rights in one more byte.
type Token struct {
	verbs.RemoteMemory
	// Access is verbs.RemoteRead, verbs.RemoteWrite, or both. It is 0 for the zero Token.
	Access verbs.Access
}

// TokenLen is the size in bytes of an encoded Token.
const TokenLen = verbs.RemoteMemoryLen + 1

// Rights in the encoding of a Token.
const (
	tokenRead = 1 << iota
	tokenWrite
	tokenRights
)

// lentRights has the rights that can be lent.
const lentRights = verbs.RemoteRead | verbs.RemoteWrite

// Slice returns the n bytes from off on. It panics if they are not all in the memory. If a peer sent the
// Token, check Length first.
func (t Token) Slice(off, n int) Token { return Token{t.RemoteMemory.Slice(off, n), t.Access} }

// AppendBinary appends the encoding to b. It fails if the Token has other rights.
func (t Token) AppendBinary(b []byte) ([]byte, error) {
	if err := checkRights(t.Access); err != nil {
		return b, err
	}
	b, err := t.RemoteMemory.AppendBinary(b)
	var rights byte
	if t.Access&verbs.RemoteRead != 0 {
		rights |= tokenRead
	}
	if t.Access&verbs.RemoteWrite != 0 {
		rights |= tokenWrite
	}
	return append(b, rights), err
}

// MarshalBinary returns the encoding. It fails as AppendBinary does.
func (t Token) MarshalBinary() ([]byte, error) { return t.AppendBinary(make([]byte, 0, TokenLen)) }

// UnmarshalBinary decodes the encoding. It fails with EINVAL for bytes that AppendBinary does not
// return. If it fails, t is unchanged.
func (t *Token) UnmarshalBinary(data []byte) error {
	if len(data) != TokenLen {
		return fmt.Errorf("token in %d bytes, want %d: %w", len(data), TokenLen, syscall.EINVAL)
	}
	rights := data[TokenLen-1]
	if rights == 0 || rights >= tokenRights {
		return fmt.Errorf("token with rights %#x: %w", rights, syscall.EINVAL)
	}
	var read Token
	if err := read.RemoteMemory.UnmarshalBinary(data[:TokenLen-1]); err != nil {
		return err
	}
	if rights&tokenRead != 0 {
		read.Access |= verbs.RemoteRead
	}
	if rights&tokenWrite != 0 {
		read.Access |= verbs.RemoteWrite
	}
	*t = read
	return nil
}

// checkRights returns an error that wraps EINVAL for rights that cannot be lent.
func checkRights(access verbs.Access) error {
	if access == 0 || access&^lentRights != 0 {
		return fmt.Errorf("rights %v, want RemoteRead, RemoteWrite or both: %w", access, syscall.EINVAL)
	}
	return nil
}
