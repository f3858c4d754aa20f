"""Names that the embedded model knows as whole words, for worlds that a small vocabulary can spell.

Each name is one token of the embedded model, and occurs in the model's lessons (scripts.nano.skills).
"""

from __future__ import annotations

NAMES = (
    *("Anna", "Ben", "Carl", "Dora", "Emil", "Fay", "Gus", "Hana", "Ivan", "Jane", "Karl", "Lena", "Max"),
    *("Nina", "Omar", "Pia", "Rosa", "Sam", "Tom", "Vera", "Alma", "Boris", "Clara", "David", "Elsa", "Felix"),
    *("Greta", "Hugo", "Ines", "Jonas", "Kira", "Leon", "Mira", "Noah", "Olga", "Paul", "Quinn", "Rita"),
    *("Simon", "Tara"),
)
TOWNS = (
    *("Arden", "Belmar", "Corvo", "Dunmore", "Elbach", "Farlow", "Grimsby", "Halden", "Isenau", "Jarrow"),
    *("Kelso", "Lorne", "Marlow", "Norden"),
)
COUNTRIES = (*("Avaria", "Borland", "Cestria", "Dovenia", "Estmark", "Falland", "Gorania", "Hestia"),)
SCHOOLS = (*("Ashford", "Birchwood", "Crestview", "Dalton", "Eastgate", "Foxhill", "Glenwood", "Hillcrest"),)
TITLES = (
    *("The Silent River", "The Red Door", "The Last Garden", "The Long Winter", "The Glass Tower"),
    *("The Lost Key", "The Old Bridge", "The Quiet Sea", "The Blue Lamp", "The Hidden Path", "The Stone King"),
    *("The Paper Moon",),
)
