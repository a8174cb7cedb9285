// SPDX-License-Identifier: Apache-2.0

package golden

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"
)

// Parse reads the text of a golden file.
func Parse(text string) (*File, error) {
	var p parser
	n := 0
	for line := range strings.Lines(text) {
		n++
		if err := p.line(strings.TrimRight(line, "\n")); err != nil {
			return nil, fmt.Errorf("line %d: %w: %q", n, err, line)
		}
	}
	if p.f == nil {
		return nil, fmt.Errorf("the file is empty")
	}
	return p.f, nil
}

// parser holds the open definitions to which the next line may belong.
type parser struct {
	f    *File
	h    *Header
	enum *Enum
	s    *Struct
}

func (p *parser) line(line string) error {
	words := strings.Fields(line)
	switch {
	case p.f == nil:
		if len(words) < 3 || words[0] != Package {
			return fmt.Errorf("want %s, a version and machines", Package)
		}
		p.f = &File{Version: words[1], Arches: words[2:]}
	case len(words) < 2:
		return fmt.Errorf("want two words or more")
	case words[0] == "header" && line[0] != '\t':
		p.h = &Header{Name: words[1]}
		p.f.Headers = append(p.f.Headers, p.h)
		p.enum, p.s = nil, nil
	case p.h == nil:
		return fmt.Errorf("want a header")
	case line[0] == '\t' && p.enum != nil:
		c, err := parseConst(words)
		p.enum.Consts = append(p.enum.Consts, c)
		return err
	case line[0] == '\t' && p.s != nil:
		depth := len(line) - len(strings.TrimLeft(line, "\t"))
		return addMember(&p.s.Members, depth, words)
	default:
		return p.top(words)
	}
	return nil
}

// top parses a line that starts a new definition.
func (p *parser) top(words []string) error {
	p.enum, p.s = nil, nil
	switch words[0] {
	case "define":
		c, err := parseConst(words[1:])
		p.h.Defines = append(p.h.Defines, c)
		return err
	case "macro":
		p.h.Macros = append(p.h.Macros, words[1])
	case "enum":
		p.h.Enums = append(p.h.Enums, Enum{Name: strings.TrimPrefix(words[1], "-")})
		p.enum = &p.h.Enums[len(p.h.Enums)-1]
	case "struct", "union":
		if len(words) != 3 {
			return fmt.Errorf("want a name and a size")
		}
		size, err := strconv.ParseInt(words[2], 10, 64)
		if err != nil {
			return err
		}
		p.s = &Struct{Name: words[1], Union: words[0] == "union", Size: size}
		p.h.Structs = append(p.h.Structs, p.s)
	default:
		return fmt.Errorf("unknown word")
	}
	return nil
}

func parseConst(words []string) (Const, error) {
	if len(words) != 2 {
		return Const{}, fmt.Errorf("want a name and a value")
	}
	v, ok := new(big.Int).SetString(words[1], 10)
	if !ok {
		return Const{}, fmt.Errorf("want a number")
	}
	return Const{Name: words[0], Value: v}, nil
}

// addMember adds a member with an indentation of depth steps.
func addMember(ms *[]Member, depth int, words []string) error {
	for ; depth > 1; depth-- {
		if len(*ms) == 0 {
			return fmt.Errorf("indented too far")
		}
		ms = &(*ms)[len(*ms)-1].Members
	}
	if len(words) < 4 {
		return fmt.Errorf("want a name, offset, size and type")
	}
	offset, err := strconv.ParseInt(words[1], 10, 64)
	if err != nil {
		return err
	}
	size, err := strconv.ParseInt(words[2], 10, 64)
	if err != nil {
		return err
	}
	*ms = append(*ms, Member{Name: strings.TrimPrefix(words[0], "-"), Offset: offset, Size: size, Type: strings.Join(words[3:], " ")})
	return nil
}
