package precedence

import (
	"regexp/syntax"

	"switchyard.dev/eventbus/lists"
)

// maxSamples is the maximum number of texts that a regular expression is tried with.
const maxSamples = 16

// samples returns texts that a regular expression matches, short ones first. It covers the expressions
// that are common in routes; the samples of one with assertions may not match.
func samples(expression string) []string {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil
	}
	return sample(re.Simplify())
}

func sample(re *syntax.Regexp) []string {
	switch re.Op {
	case syntax.OpLiteral:
		return []string{string(re.Rune)}
	case syntax.OpCharClass:
		return classSamples(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return []string{"a"}
	case syntax.OpCapture:
		return sample(re.Sub[0])
	case syntax.OpStar, syntax.OpQuest:
		return few(append([]string{""}, sample(re.Sub[0])...))
	case syntax.OpPlus:
		return sample(re.Sub[0])
	case syntax.OpConcat:
		out := []string{""}
		for _, sub := range re.Sub {
			out = joined(out, sample(sub))
		}
		return out
	case syntax.OpAlternate:
		out := lists.FlatMap(re.Sub, sample)
		return few(out)
	case syntax.OpNoMatch:
		return nil
	}
	return []string{""} // a position between characters, such as ^
}

// joined returns the concatenations of each text of a with each of b.
func joined(a, b []string) []string {
	out := lists.FlatMap(a, func(x string) []string { return lists.Map(b, func(y string) string { return x + y }) })
	return few(out)
}

func few(texts []string) []string { return texts[:min(len(texts), maxSamples)] }

// classSamples returns characters of a class, which is given as pairs of first and last character: a
// letter or a digit if the class has one, and both ends of each pair.
func classSamples(pairs []rune) []string {
	var likely, ends []string
	for i := 0; i+1 < len(pairs); i += 2 {
		for _, c := range "aA0" {
			if pairs[i] < c && c < pairs[i+1] {
				likely = append(likely, string(c))
			}
		}
		ends = append(ends, string(pairs[i]), string(pairs[i+1]))
	}
	return few(append(likely, ends...))
}
